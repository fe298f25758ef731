// A runner executes one step of a model: eagerly, or by replaying a graph captured beforehand.
//
// This interface is implemented twice: by a backend (usually through plugins/lowering), and by the
// plugin loader, which forwards each call through the C ABI. The engine cannot tell them apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/capture_report.h"
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
  // Padded tokens or requests; with kNotCaptured those of the missing bucket; 0 for eager or if it
  // cannot run.
  int32_t bucket = 0;

  bool ok() const { return reason == Reason::kNone; }
};

// One piece of a traced step: a kernel, a copy, or an eager op.
struct TraceEvent {
  std::string name;       // "layer 3 qkv"; the device's own name where it knows no better
  double start_us = 0.0;  // from the step's first event
  double duration_us = 0.0;
  int32_t lane = 0;  // events of one lane follow each other: a stream, for example
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

  // Captures one bucket of a runner made with CaptureOptions::lazy; from then on check() allows it.
  // Steps may be in flight. The report is of this bucket alone; one that could not be captured says
  // why, and is not to be tried again.
  // Errors: kUnimplemented for runners without buckets; kNotFound if there is no such bucket;
  // kFailedPrecondition if it has been captured.
  virtual Result<CaptureReport> capture_bucket(int32_t bucket) {
    static_cast<void>(bucket);
    return unimplemented("this runner captures no bucket later");
  }

  // Runs the step as submit() and wait() do, and tells what it spent its time on, in order of
  // start. Slower than a step that is not looked at. REQUIRES: no step is in flight.
  // Errors: those of submit() and wait(); kUnimplemented if the device cannot tell, and then
  // nothing has run.
  virtual Result<std::vector<TraceEvent>> trace(const ForwardBatch& batch,
                                                const StepOutput& output) {
    static_cast<void>(batch);
    static_cast<void>(output);
    return unimplemented("this device does not trace steps");
  }
};

}  // namespace encore
