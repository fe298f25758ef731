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
#include "engine/lazy_capture.h"
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
  int32_t bucket = 0;               // 0 for eager
  int32_t size_index = -1;          // where its cost is kept; -1: there is nothing to compare
  Reason fallback = Reason::kNone;  // why eager runs, unless only to be measured
};

// Each candidate (decode graph, prefill graph, eager) says whether it can run a batch; among those
// that can, measured cost at that padded size decides, after a few samples of each (one of those
// that turn out hopeless). Eager must be clearly faster than the best graph, so that noise does not
// move steps away from graphs.
//
// choose() and record() by one thread; stats() by any. Borrows the runners' owner for its life.
class Dispatcher {
 public:
  // `lazy` is told which missing buckets are asked for; may be null. Borrowed.
  Dispatcher(const GraphsCapture& graphs, const DispatchOptions& options, LogSink log,
             LazyCapture* lazy = nullptr);
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

  // What a step costs. Choices go by `low_us`, the least time lately: a machine that is busy with
  // something else adds to single steps, never takes from them. The first sample (cold caches)
  // gives way to the second.
  struct Cost {
    int64_t sent = 0;  // steps given to the runner, done or not, since it was last unknown
    int64_t samples = 0;
    int64_t last_step = 0;  // of its size, that it ran
    double low_us = 0.0;    // the least, relaxing towards later samples
    double mean_us = 0.0;   // running mean, for people
  };
  // What steps of one padded size cost on each kind of runner.
  struct SizeCosts {
    RunnerKind kind = RunnerKind::kEager;  // whose bucket the size is
    int32_t bucket = 0;
    int64_t steps = 0;
    std::array<Cost, kNumKinds> costs;  // by RunnerKind
  };
  struct Candidate {
    Runner* runner = nullptr;
    RunnerCheck check;

    bool able() const { return runner != nullptr && check.ok(); }
  };
  using Candidates = std::array<Candidate, kNumKinds>;  // by RunnerKind

  Candidates ask(const ForwardBatch& batch, const StepOutput& output) const;
  void note_missing(const Candidates& candidates);
  int32_t find_size(const Candidates& candidates);
  RunnerKind pick(const Candidates& candidates, SizeCosts& size) const;
  static bool wants_sample(const Cost& cost, const Cost* best, int32_t samples);
  Result<Dispatch> without_graph(const ForwardBatch& batch, const Candidates& candidates);
  Status refusal(const Candidates& candidates) const;
  void log_once(Reason reason, RunnerKind kind);
  BucketCount& bucket_count(RunnerKind kind, int32_t bucket);

  std::array<Runner*, kNumKinds> runners_{};  // by RunnerKind; null where there is none
  DispatchOptions options_;
  LogSink log_;
  LazyCapture* lazy_;
  std::vector<SizeCosts> sizes_;
  std::array<std::array<bool, kNumReasons>, kNumKinds> logged_{};

  mutable std::mutex stats_mutex_;  // guards stats_
  DispatchStats stats_;
};

}  // namespace encore
