// Chooses the runner of each step, and counts and explains what it chose.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "encore/capture.h"
#include "encore/forward_batch.h"
#include "encore/reason.h"
#include "encore/runner.h"
#include "encore/status.h"
#include "engine/log.h"

namespace encore {

struct DispatchOptions {
  bool require_graph = false;  // a step that no graph can run is an error
  int32_t graph_samples = 4;   // steps each able graph gets at each size before costs decide
  // Steps that eager gets at each size, to be compared; 0: eager runs only if no graph can.
  int32_t eager_samples = 3;
};

// Steps that one graph ran at one padded size.
struct BucketCount {
  RunnerKind kind = RunnerKind::kEager;
  int32_t bucket = 0;  // padded requests (decode graph) or tokens (prefill graph)
  int64_t replays = 0;
  double mean_us = 0.0;  // running mean of a step's time
};

struct DispatchStats {
  int64_t graph_replays = 0;
  int64_t eager_fallbacks = 0;  // steps that ran eagerly although graphs were asked for
  int64_t eager_samples = 0;    // steps that ran eagerly only to be measured
  // Fallbacks by the reason of the graph that should have run the step; kSlower: eager was measured
  // to be faster; kDisabled: no graph of the kind was asked for.
  std::array<int64_t, kNumReasons> fallbacks_by_reason{};
  std::vector<BucketCount> buckets;  // by kind, then size; the ones used so far
};

// The choice made for one step; goes back to record() when the step is done.
struct Dispatch {
  Runner* runner = nullptr;
  RunnerKind kind = RunnerKind::kEager;
  int32_t bucket = 0;     // 0 for eager
  int32_t cost_row = -1;  // index of the size among measured costs; -1: no choice to learn
  Reason fallback = Reason::kNone;  // why eager runs
};

// Each candidate (decode graph, prefill graph, eager) says whether it can run a batch; among those
// that can, measured cost at that padded size decides, after a few samples of each. Eager must be
// clearly faster than the best graph, so that noise does not move steps away from graphs.
//
// choose() and record() by one thread; stats() by any. Borrows the runners' owner for its life.
class Dispatcher {
 public:
  Dispatcher(const GraphsCapture& graphs, const DispatchOptions& options, LogSink log);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Allocates only when a size is seen for the first time.
  // Errors: kFailedPrecondition naming each graph and its reason, if require_graph is set and no
  // graph can run the batch; or each runner's reason, if not even eager can.
  Result<Dispatch> choose(const ForwardBatch& batch, const StepOutput& output);

  // Counts a step that was submitted as chosen.
  void submitted(const Dispatch& dispatch);

  // Learns what a finished step cost.
  void record(const Dispatch& dispatch, int64_t step_us);

  DispatchStats stats() const;

 private:
  static constexpr int32_t kNumKinds = 3;

  // Running mean of step times; the first sample (cold caches) gives way to the second.
  struct Cost {
    int64_t samples = 0;
    double mean_us = 0.0;
    void add(double us);
  };
  // What steps of one padded size cost on each kind of runner.
  struct CostRow {
    RunnerKind key_kind;
    int32_t key_bucket;
    std::array<Cost, kNumKinds> costs{};    // by kind
    std::array<int64_t, kNumKinds> sent{};  // steps given to each kind, done or not
  };
  struct Candidate {
    Runner* runner = nullptr;
    RunnerCheck check;
  };
  using Candidates = std::array<Candidate, kNumKinds>;  // by kind

  Candidates ask(const ForwardBatch& batch, const StepOutput& output) const;
  Reason graph_reason(const ForwardBatch& batch, const Candidates& candidates) const;
  Status no_runner(const Candidates& candidates, bool eager_allowed) const;
  int32_t cost_row(const Candidates& candidates);
  RunnerKind cheapest(const Candidates& candidates, const CostRow& row) const;
  void log_once(Reason reason, RunnerKind kind);

  Runner* eager_ = nullptr;
  Runner* prefill_ = nullptr;  // null if prefill runs eagerly
  Runner* decode_ = nullptr;   // null if decode is not captured
  DispatchOptions options_;
  LogSink log_;
  std::vector<CostRow> rows_;
  std::array<std::array<bool, kNumReasons>, kNumKinds> logged_{};

  mutable std::mutex stats_mutex_;  // guards stats_
  DispatchStats stats_;
};

}  // namespace encore
