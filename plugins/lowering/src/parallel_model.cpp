#include "encore/lowering/parallel_model.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "parallel_kv.h"
#include "parallel_runner.h"

namespace encore::lowering {
namespace {

// Bytes loaded, summed over ranks that load at the same time. The caller's function is called from
// the caller's thread.
class LoadProgress {
 public:
  LoadProgress(int32_t num_ranks, LoadOptions options)
      : options_(std::move(options)), ranks_(static_cast<size_t>(num_ranks)) {}

  // What the rank's own load reports to.
  LoadOptions for_rank(int32_t rank) {
    LoadOptions options = options_;
    options.progress = [this, rank](int64_t done, int64_t total) {
      ranks_[static_cast<size_t>(rank)].done.store(done, std::memory_order_relaxed);
      ranks_[static_cast<size_t>(rank)].total.store(total, std::memory_order_relaxed);
      return !cancelled_.load(std::memory_order_relaxed);
    };
    return options;
  }
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  // Whether anything has been loaded since the last report.
  bool report() {
    int64_t done = 0;
    int64_t total = 0;
    for (const Rank& rank : ranks_) {
      done += rank.done.load(std::memory_order_relaxed);
      total += rank.total.load(std::memory_order_relaxed);
    }
    if (total > 0 && options_.progress && !options_.progress(done, total)) cancel();
    return std::exchange(reported_, done) != done;
  }

 private:
  struct Rank {
    std::atomic<int64_t> done{0};
    std::atomic<int64_t> total{0};
  };
  LoadOptions options_;
  std::vector<Rank> ranks_;
  std::atomic<bool> cancelled_{false};
  int64_t reported_ = 0;
};

// What ranks use while they load. A rank that is given up may still be using it.
struct Loading {
  Loading(ModelSpec whole, int32_t num_ranks, const LoadOptions& options)
      : spec(std::move(whole)),
        views(static_cast<size_t>(num_ranks)),
        progress(num_ranks, options) {}

  // All at first: an impossible division takes no memory on any device.
  Status divide(const WeightSource& weights) {
    const auto num_ranks = static_cast<int32_t>(views.size());
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      ENCORE_ASSIGN_OR_RETURN(views[static_cast<size_t>(rank)],
                              ShardedWeights::create(weights, spec, {rank, num_ranks}));
    }
    return {};
  }

  Status load(ParallelCore& core, int32_t rank) {
    Status status = try_to_load(core, rank);
    if (!status.ok()) {  // the others need not go on, nor wait for this one
      progress.cancel();
      core.group().abort();
    }
    return status;
  }

  Status try_to_load(ParallelCore& core, int32_t rank) {
    const Shard shard{rank, static_cast<int32_t>(views.size())};
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, core.group().make_device(rank));
    ENCORE_ASSIGN_OR_RETURN(const ModelSpec part, shard_spec(spec, shard));
    std::unique_ptr<ShardedWeights> view = std::move(views[static_cast<size_t>(rank)]);
    ENCORE_ASSIGN_OR_RETURN(auto model, LoweredModel::load(std::move(device), part, *view,
                                                           progress.for_rank(rank), shard));
    core.keep(rank, std::move(view), std::move(model));
    return {};
  }

  ModelSpec spec;  // the whole model's
  std::vector<std::unique_ptr<ShardedWeights>> views;
  LoadProgress progress;
};

class RanksModel final : public Model {
 public:
  explicit RanksModel(std::shared_ptr<ParallelCore> core) : core_(std::move(core)) {}

  ModelInfo info() const override;
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override;
  // Of the rank that needs most: each has a device of its own.
  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override {
    return capture(kv, options, &LoweredModel::create_eager);
  }
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override {
    return capture(kv, options, &LoweredModel::capture_prefill);
  }
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override {
    return capture(kv, options, &LoweredModel::capture_decode);
  }
  Status set_layer_observer(LayerObserver observer) override;
  Status check_guards() const override;
  Status fail_capture(int32_t bucket, Reason reason) override;

 private:
  using Capture = Result<RunnerCapture> (LoweredModel::*)(KvCache&, const CaptureOptions&);
  Result<RunnerCapture> capture(KvCache& kv, const CaptureOptions& options, Capture function);

  std::shared_ptr<ParallelCore> core_;
};

ModelInfo RanksModel::info() const {
  ModelInfo sum;
  for (int32_t rank = 0; rank < core_->size(); ++rank) {
    const ModelInfo info = core_->model(rank).info();
    sum.weight_bytes += info.weight_bytes;
    sum.mapped_bytes += info.mapped_bytes;
    sum.workspace_bytes += info.workspace_bytes;
    sum.step_weight_bytes += info.step_weight_bytes;
  }
  return sum;
}

Result<std::unique_ptr<KvCache>> RanksModel::create_kv(const KvOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(auto kv, ParallelKvCache::create(core_, options));
  return std::unique_ptr<KvCache>(std::move(kv));
}

Result<MemoryPlan> RanksModel::plan_memory(const KvOptions& kv, const CaptureOptions& options) {
  std::vector<MemoryPlan> plans(static_cast<size_t>(core_->size()));
  ENCORE_RETURN_IF_ERROR(core_->prepare({"planning memory"}, [&](int32_t rank) -> Status {
    ENCORE_ASSIGN_OR_RETURN(plans[static_cast<size_t>(rank)],
                            core_->model(rank).plan_memory(kv, options));
    return {};
  }));
  MemoryPlan most;
  for (const MemoryPlan& plan : plans) {
    most.kv_page_bytes = std::max(most.kv_page_bytes, plan.kv_page_bytes);
    most.kv_fixed_bytes = std::max(most.kv_fixed_bytes, plan.kv_fixed_bytes);
    most.runner_bytes = std::max(most.runner_bytes, plan.runner_bytes);
    most.executable_bytes = std::max(most.executable_bytes, plan.executable_bytes);
  }
  return most;
}

// In three stages, each joined: what may run out of memory, then steps in which the ranks meet,
// then recording, in which they do not. So a rank that fails leaves no other waiting for it.
Result<RunnerCapture> RanksModel::capture(KvCache& kv, const CaptureOptions& options,
                                          Capture function) {
  auto& cache = static_cast<ParallelKvCache&>(kv);
  const auto num_ranks = static_cast<size_t>(core_->size());
  std::vector<CaptureReport> reserved(num_ranks);
  ENCORE_RETURN_IF_ERROR(core_->prepare({"allocating buffers"}, [&](int32_t rank) {
    return core_->model(rank).reserve(cache.part(rank), options,
                                      &reserved[static_cast<size_t>(rank)]);
  }));
  ENCORE_RETURN_IF_ERROR(core_->warm_up(
      {"warming up"}, [&](int32_t rank) { return core_->model(rank).warm_up(cache.part(rank)); }));
  std::vector<RunnerCapture> captures(num_ranks);
  std::atomic<int32_t> done{0};
  std::atomic<int32_t> total{0};
  int32_t reported = 0;
  const auto poll = [&]() {
    const int32_t buckets_done = done.load();
    if (options.progress && total.load() > 0) options.progress(buckets_done, total.load());
    return std::exchange(reported, buckets_done) != buckets_done;
  };
  const Status captured = core_->prepare(
      {"capturing"},
      [&](int32_t rank) -> Status {
        CaptureOptions own = options;
        own.progress = nullptr;
        if (rank == 0) {
          own.progress = [&](int32_t buckets_done, int32_t buckets_total) {
            done.store(buckets_done);
            total.store(buckets_total);
          };
        }
        ENCORE_ASSIGN_OR_RETURN(captures[static_cast<size_t>(rank)],
                                (core_->model(rank).*function)(cache.part(rank), own));
        return {};
      },
      poll);
  if (!captured.ok()) {
    std::vector<std::unique_ptr<Runner>> runners;
    runners.reserve(captures.size());
    for (RunnerCapture& capture : captures) runners.push_back(std::move(capture.runner));
    core_->destroy(runners);
    return captured;
  }
  static_cast<void>(poll());
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    CaptureReport& report = captures[rank].report;
    report.arena_bytes += reserved[rank].arena_bytes;
    report.static_bytes += reserved[rank].static_bytes;
    report.workspace_bytes += reserved[rank].workspace_bytes;
    report.host_bytes += reserved[rank].host_bytes;
  }
  return ParallelRunner::join(core_, std::move(captures), options.limits);
}

// Rank 0 shows its output, which is everybody's. The others take the same breaks.
Status RanksModel::set_layer_observer(LayerObserver observer) {
  return core_->prepare({"setting an observer"}, [&](int32_t rank) {
    LayerObserver own = observer;
    if (own && rank != 0) own = [](const LayerOutput&) {};
    return core_->model(rank).set_layer_observer(std::move(own));
  });
}

Status RanksModel::check_guards() const {
  return core_->prepare({"checking guards"},
                        [this](int32_t rank) { return core_->model(rank).check_guards(); });
}

Status RanksModel::fail_capture(int32_t bucket, Reason reason) {
  return core_->prepare({"setting a fault"}, [&](int32_t rank) {
    return core_->model(rank).fail_capture(bucket, reason);
  });
}

}  // namespace

Result<std::unique_ptr<Model>> ParallelModel::load(std::unique_ptr<RankGroup> group,
                                                   const ModelSpec& spec,
                                                   const WeightSource& weights,
                                                   const LoadOptions& options,
                                                   const ParallelLimits& limits) {
  const auto loading = std::make_shared<Loading>(spec, group->size(), options);
  ENCORE_RETURN_IF_ERROR(loading->divide(weights));
  ENCORE_ASSIGN_OR_RETURN(std::shared_ptr<ParallelCore> core,
                          ParallelCore::create(std::move(group), limits));
  // A disk may be slow: what ends the load is that nothing comes any more.
  const Status loaded = core->prepare(
      {"loading"},
      [&state = *loading, &ranks = *core](int32_t rank) { return state.load(ranks, rank); },
      [&]() { return loading->progress.report(); });
  LoadProgress& progress = loading->progress;
  if (!loaded.ok()) {
    progress.cancel();  // a rank that is late stops at its next weight: these end with this call
    core->outlive_late_ranks(loading);
    return loaded;
  }
  std::unique_ptr<Model> model(new RanksModel(std::move(core)));
  progress.report();
  // All ranks may have ended before they were told.
  if (progress.cancelled()) return cancelled("loading was cancelled");
  return model;
}

}  // namespace encore::lowering
