#include "engine/dispatch.h"

#include <algorithm>
#include <utility>

namespace encore {
namespace {

constexpr RunnerKind kGraphKinds[] = {RunnerKind::kDecodeGraph, RunnerKind::kPrefillGraph};

// Eager must be this much cheaper than the best graph to be preferred.
constexpr double kEagerAdvantage = 0.9;
// A runner that is so much dearer than the best is not measured any further.
constexpr double kHopeless = 2.0;
// A cost that was last measured more steps ago than this is measured again before it is believed.
constexpr int64_t kStaleSteps = 256;
// The running mean covers about this many steps.
constexpr int64_t kMeanSteps = 16;
// How far one step may raise the least time: a lasting rise is followed, a single one is not.
constexpr double kLowRise = 1.0 / 64.0;

int32_t index_of(RunnerKind kind) { return static_cast<int32_t>(kind); }

// Whether every request brings one token, so that the decode graph is the one to ask.
bool is_decode(const ForwardBatch& batch) { return batch.num_tokens() == batch.num_requests(); }

}  // namespace

Dispatcher::Dispatcher(const GraphsCapture& graphs, const DispatchOptions& options, LogSink log,
                       LazyCapture* lazy)
    : options_(options), log_(std::move(log)), lazy_(lazy) {
  runners_[index_of(RunnerKind::kEager)] = graphs.eager.runner.get();
  runners_[index_of(RunnerKind::kDecodeGraph)] = graphs.decode.runner.get();
  if (graphs.prefill.runner != graphs.eager.runner) {
    runners_[index_of(RunnerKind::kPrefillGraph)] = graphs.prefill.runner.get();
  }
}

Result<Dispatch> Dispatcher::choose(const ForwardBatch& batch, const StepOutput& output) {
  const Candidates candidates = ask(batch, output);
  note_missing(candidates);
  const int32_t size_index = find_size(candidates);
  if (size_index < 0) return without_graph(batch, candidates);

  SizeCosts& size = sizes_[size_index];
  const RunnerKind kind = pick(candidates, size);
  const Candidate& chosen = candidates[index_of(kind)];
  Dispatch dispatch{chosen.runner, kind, chosen.check.bucket, size_index, Reason::kNone};
  if (kind == RunnerKind::kEager && size.costs[index_of(kind)].sent >= options_.eager_samples) {
    dispatch.fallback = Reason::kSlower;
    log_once(Reason::kSlower, size.kind);
  }
  return dispatch;
}

Dispatcher::Candidates Dispatcher::ask(const ForwardBatch& batch, const StepOutput& output) const {
  Candidates candidates;
  for (int32_t i = 0; i < kNumKinds; ++i) {
    candidates[i].runner = runners_[i];
    if (runners_[i] == nullptr) {
      candidates[i].check.reason = Reason::kDisabled;
    } else {
      candidates[i].check = runners_[i]->check(batch, output);
    }
  }
  return candidates;
}

// Only the graph that would have run the step counts as asked for.
void Dispatcher::note_missing(const Candidates& candidates) {
  if (lazy_ == nullptr) return;
  for (const RunnerKind kind : kGraphKinds) {
    const Candidate& candidate = candidates[index_of(kind)];
    if (candidate.able()) return;
    if (candidate.check.reason != Reason::kNotCaptured) continue;
    lazy_->asked(kind, candidate.check.bucket);
    return;
  }
}

// A step's size is the bucket of the narrowest graph that can run it; -1 if none can.
int32_t Dispatcher::find_size(const Candidates& candidates) {
  for (const RunnerKind kind : kGraphKinds) {
    const Candidate& candidate = candidates[index_of(kind)];
    if (!candidate.able()) continue;
    const int32_t bucket = candidate.check.bucket;
    const auto found = std::find_if(sizes_.begin(), sizes_.end(), [&](const SizeCosts& size) {
      return size.kind == kind && size.bucket == bucket;
    });
    if (found != sizes_.end()) return static_cast<int32_t>(found - sizes_.begin());
    sizes_.push_back({kind, bucket, 0, {}});
    return static_cast<int32_t>(sizes_.size()) - 1;
  }
  return -1;
}

// Graphs first, so that a size seen once or twice is served as captured.
RunnerKind Dispatcher::pick(const Candidates& candidates, SizeCosts& size) const {
  RunnerKind best = RunnerKind::kEager;
  for (const RunnerKind kind : kGraphKinds) {
    if (!candidates[index_of(kind)].able()) continue;
    const Cost& cost = size.costs[index_of(kind)];
    const Cost& best_cost = size.costs[index_of(best)];
    const bool first = best == RunnerKind::kEager;
    if (wants_sample(cost, first ? nullptr : &best_cost, options_.graph_samples)) return kind;
    if (first || (cost.samples > 0 && cost.low_us < best_cost.low_us)) best = kind;
  }
  const Cost& eager = size.costs[index_of(RunnerKind::kEager)];
  if (candidates[index_of(RunnerKind::kEager)].able() && !options_.require_graph &&
      options_.eager_samples > 0) {
    const Cost& graph = size.costs[index_of(best)];
    if (wants_sample(eager, &graph, options_.eager_samples)) return RunnerKind::kEager;
    if (eager.samples > 0 && eager.low_us < kEagerAdvantage * graph.low_us) {
      best = RunnerKind::kEager;
    }
  }
  Cost& cost = size.costs[index_of(best)];
  if (size.steps - cost.last_step > kStaleSteps) cost = {};
  return best;
}

bool Dispatcher::wants_sample(const Cost& cost, const Cost* best, int32_t samples) {
  if (cost.sent >= samples) return false;
  const bool hopeless = best != nullptr && best->samples > 0 && cost.samples > 0 &&
                        cost.low_us > kHopeless * best->low_us;
  return !hopeless;
}

Result<Dispatch> Dispatcher::without_graph(const ForwardBatch& batch,
                                           const Candidates& candidates) {
  const Candidate& eager = candidates[index_of(RunnerKind::kEager)];
  if (options_.require_graph || !eager.able()) return refusal(candidates);
  // The graph that was meant for the step says why not: for a decode step that without a decode
  // graph is the prefill graph.
  RunnerKind meant = RunnerKind::kPrefillGraph;
  if (is_decode(batch) && candidates[index_of(RunnerKind::kDecodeGraph)].runner != nullptr) {
    meant = RunnerKind::kDecodeGraph;
  }
  const Reason reason = candidates[index_of(meant)].check.reason;
  log_once(reason, meant);
  return Dispatch{eager.runner, RunnerKind::kEager, 0, -1, reason};
}

Status Dispatcher::refusal(const Candidates& candidates) const {
  std::string message = options_.require_graph
                            ? "no graph can run this step and require_graph forbids eager"
                            : "no runner can run this step";
  for (const RunnerKind kind :
       {RunnerKind::kDecodeGraph, RunnerKind::kPrefillGraph, RunnerKind::kEager}) {
    if (kind == RunnerKind::kEager && options_.require_graph) continue;
    message.append(kind == RunnerKind::kDecodeGraph ? ": " : ", ");
    message.append(runner_kind_name(kind)).append(" says ");
    message.append(reason_name(candidates[index_of(kind)].check.reason));
  }
  return failed_precondition(std::move(message));
}

void Dispatcher::log_once(Reason reason, RunnerKind kind) {
  bool& logged = logged_[index_of(kind)][static_cast<int32_t>(reason)];
  if (logged || !log_) return;
  logged = true;
  std::string message = "a step runs eagerly: ";
  if (reason == Reason::kSlower) {
    message.append("measured faster than the ").append(runner_kind_name(kind));
  } else {
    message.append("the ").append(runner_kind_name(kind)).append(" says ");
    message.append(reason_name(reason));
  }
  message.append("; further ones are only counted");
  const bool chosen = reason == Reason::kDisabled || reason == Reason::kSlower ||
                      (reason == Reason::kNotCaptured && lazy_ != nullptr);
  log_(chosen ? LogLevel::kInfo : LogLevel::kWarn, message);
}

void Dispatcher::submitted(const Dispatch& dispatch) {
  if (dispatch.size_index >= 0) {
    SizeCosts& size = sizes_[dispatch.size_index];
    Cost& cost = size.costs[index_of(dispatch.kind)];
    ++cost.sent;
    cost.last_step = ++size.steps;
  }
  const std::lock_guard lock(stats_mutex_);
  if (dispatch.kind != RunnerKind::kEager) {
    ++stats_.graph_replays;
    ++bucket_count(dispatch.kind, dispatch.bucket).replays;
  } else if (dispatch.fallback == Reason::kNone) {
    ++stats_.eager_samples;
  } else {
    ++stats_.eager_fallbacks;
    ++stats_.fallbacks_by_reason[static_cast<int32_t>(dispatch.fallback)];
  }
}

void Dispatcher::record(const Dispatch& dispatch, int64_t step_us) {
  if (dispatch.size_index < 0) return;
  Cost& cost = sizes_[dispatch.size_index].costs[index_of(dispatch.kind)];
  const auto us = static_cast<double>(step_us);
  ++cost.samples;
  const int64_t weight = std::clamp<int64_t>(cost.samples - 1, 1, kMeanSteps);
  cost.mean_us += (us - cost.mean_us) / static_cast<double>(weight);
  cost.low_us = cost.samples > 2 ? std::min(us, cost.low_us * (1.0 + kLowRise)) : us;
  if (dispatch.kind == RunnerKind::kEager) return;
  const std::lock_guard lock(stats_mutex_);
  bucket_count(dispatch.kind, dispatch.bucket).mean_us = cost.mean_us;
}

BucketCount& Dispatcher::bucket_count(RunnerKind kind, int32_t bucket) {
  const auto position =
      std::lower_bound(stats_.buckets.begin(), stats_.buckets.end(), std::pair(kind, bucket),
                       [](const BucketCount& count, const std::pair<RunnerKind, int32_t>& key) {
                         return std::pair(count.kind, count.bucket) < key;
                       });
  if (position != stats_.buckets.end() && position->kind == kind && position->bucket == bucket) {
    return *position;
  }
  return *stats_.buckets.insert(position, {kind, bucket, 0, 0.0});
}

DispatchStats Dispatcher::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

}  // namespace encore
