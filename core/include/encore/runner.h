// A runner executes one step of a model: eagerly, or by replaying a graph captured beforehand.
//
// This interface is implemented twice: by a backend (usually through plugins/lowering), and by the
// plugin loader, which forwards each call through the C ABI. The engine cannot tell them apart.
#pragma once

#include <cstdint>
#include <string_view>

#include "encore/forward_batch.h"
#include "encore/reason.h"
#include "encore/status.h"

namespace encore {

// The numbers are part of the C ABI.
enum class RunnerKind : int32_t {
  kEager = 0,         // issues every op of every step
  kPrefillGraph = 1,  // replays a graph keyed by the padded number of tokens
  kDecodeGraph = 2,   // replays a graph keyed by the padded number of requests
};

constexpr std::string_view runner_kind_name(RunnerKind kind) {
  switch (kind) {
    case RunnerKind::kEager:
      return "eager";
    case RunnerKind::kPrefillGraph:
      return "prefill_graph";
    case RunnerKind::kDecodeGraph:
      return "decode_graph";
  }
  return "unknown";
}

// Whether a runner can run a batch, and at which padded size.
struct RunnerCheck {
  Reason reason = Reason::kNone;
  int32_t bucket = 0;  // padded tokens or requests; 0 for eager or if it cannot run

  bool ok() const { return reason == Reason::kNone; }
};

// Identifies a submitted step until it has been waited for.
using Ticket = uint64_t;

// One thread at a time uses a runner; different runners of a model may be used from different
// threads, but steps that touch the same KV cache run in the order of their submission.
class Runner {
 public:
  virtual ~Runner() = default;

  virtual RunnerKind kind() const = 0;

  // No side effects, no allocation. A batch that contradicts itself is not this function's
  // business: submit() reports it.
  virtual RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const = 0;

  // Starts the step. Borrows `batch` until it returns and `output` until wait() returns.
  // REQUIRES: check() is ok, and the KV pages named by the batch exist.
  // Errors: kInvalidArgument, naming the field, if the batch contradicts itself; nothing has run.
  virtual Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) = 0;

  // Waits until the step's results are in its output. Each ticket once, in order.
  // Errors: kDeadlineExceeded after `timeout_us` (< 0: no limit); the step may still finish.
  virtual Status wait(Ticket ticket, int64_t timeout_us) = 0;
};

}  // namespace encore
