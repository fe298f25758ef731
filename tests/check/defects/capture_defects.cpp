// Defects of capture: its order, its reports, what it does to what was captured before.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "defect_families.h"
#include "defective_runner.h"

namespace encore::defects {
namespace {

// A runner that is spoilt from some moment on.
class Spoilable : public SpoilingRunner {
 public:
  Spoilable(std::unique_ptr<Runner> sound, RunnerFacts facts,
            std::shared_ptr<const std::atomic<bool>> spoilt)
      : SpoilingRunner(std::move(sound), std::move(facts)), spoilt_(std::move(spoilt)) {}

 protected:
  bool spoils(const ForwardBatch& batch, int32_t bucket) override {
    static_cast<void>(batch);
    static_cast<void>(bucket);
    return *spoilt_;
  }

 private:
  std::shared_ptr<const std::atomic<bool>> spoilt_;
};

// The same bucket is captured, and listed, twice.
class ListedTwice final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture, Defect::capture(model, facts));
    auto& buckets = capture.report.buckets;
    if (!buckets.empty()) buckets.push_back(buckets.back());
    return capture;
  }
};

// Captured buckets are said to make no kernel call.
class NodesNotCounted final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture, Defect::capture(model, facts));
    for (BucketReport& bucket : capture.report.buckets) bucket.num_nodes = 0;
    return capture;
  }
};

// Prefill graphs are right only if they are the first that are captured.
class OrderMatters final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    const std::lock_guard lock(mutex_);
    if (facts.kind == RunnerKind::kEager) {
      first_.erase(facts.kv);  // a new cache, perhaps where an old one was
      return runner;
    }
    const RunnerKind first = first_.try_emplace(facts.kv, facts.kind).first->second;
    if (facts.kind != RunnerKind::kPrefillGraph || first == facts.kind) return runner;
    return std::make_unique<Spoilable>(std::move(runner), facts,
                                       std::make_shared<std::atomic<bool>>(true));
  }

 private:
  std::mutex mutex_;
  std::map<const KvCache*, RunnerKind> first_;  // of a cache's graph runners
};

// A bucket that is captured later is captured with the wrong inputs.
class LazyBucketWrong final : public Defect {
  class LazyRunner : public SpoilingRunner {
   public:
    using SpoilingRunner::SpoilingRunner;

   protected:
    bool spoils(const ForwardBatch& batch, int32_t bucket) override {
      static_cast<void>(batch);
      static_cast<void>(bucket);
      return facts().options.lazy;
    }
  };

 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kind == RunnerKind::kEager) return runner;
    return std::make_unique<LazyRunner>(std::move(runner), facts);
  }
};

// A bucket that failed is reported as captured.
class FailureHidden final : public Defect {
 public:
  Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts) override {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture, Defect::capture(model, facts));
    for (BucketReport& bucket : capture.report.buckets) {
      if (bucket.reason != Reason::kCaptureFailed) continue;
      bucket.reason = Reason::kNone;
      bucket.num_nodes = 1;
      bucket.num_segments = 1;
    }
    return capture;
  }
};

// A second decode runner on one cache takes the first one's static inputs.
class SecondTakesOver final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kind != RunnerKind::kDecodeGraph) return runner;
    const std::lock_guard lock(mutex_);
    std::weak_ptr<std::atomic<bool>>& last = last_[facts.kv];
    if (const auto earlier = last.lock()) *earlier = true;
    auto spoilt = std::make_shared<std::atomic<bool>>(false);
    last = spoilt;
    return std::make_unique<Spoilable>(std::move(runner), facts, std::move(spoilt));
  }

 private:
  std::mutex mutex_;
  std::map<const KvCache*, std::weak_ptr<std::atomic<bool>>> last_;
};

// A runner that is freed leaves its arena behind.
class ArenaLost final : public Defect {
  class LosingRunner : public ForwardingRunner {
   public:
    using ForwardingRunner::ForwardingRunner;
    ~LosingRunner() override {
      constexpr size_t kBytes = size_t{1} << 20;
      void* const lost = std::malloc(kBytes);
      if (lost != nullptr) std::memset(lost, 1, kBytes);
      kept = lost;
    }

   private:
    inline static std::atomic<void*> kept = nullptr;
  };

 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<LosingRunner>(std::move(runner), facts);
  }
};

// The counter knows the weights' allocation alone.
class AllocationsUncounted final : public Defect {
 public:
  std::vector<std::pair<std::string, int64_t>> stats(const Backend& backend) override {
    auto stats = backend.stats();
    stats.emplace_back(kAllocatedBytesStat, weight_bytes_.load());
    return stats;
  }
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    ENCORE_ASSIGN_OR_RETURN(auto model, backend.load_model(device, spec, weights, options));
    weight_bytes_ = model->info().weight_bytes;
    return model;
  }

 private:
  std::atomic<int64_t> weight_bytes_ = 0;
};

// The workspace moves when a larger model needs a larger one; graphs keep the old address.
class WorkspaceMoves final : public Defect {
 public:
  Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    const std::lock_guard lock(mutex_);
    if (largest_ != 0 && spec.hidden_size > largest_) *moved_ = true;
    largest_ = spec.hidden_size;
    return Defect::load_model(backend, device, spec, weights, options);
  }
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    if (facts.kind == RunnerKind::kEager || *moved_) return runner;
    return std::make_unique<Spoilable>(std::move(runner), facts, moved_);
  }

 private:
  std::mutex mutex_;
  int64_t largest_ = 0;
  std::shared_ptr<std::atomic<bool>> moved_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::span<const DefectEntry> capture_defects() {
  static const DefectEntry entries[] = {
      defect<ListedTwice>("bucket_listed_twice"),
      defect<NodesNotCounted>("nodes_not_counted"),
      defect<OrderMatters>("capture_order_matters"),
      defect<LazyBucketWrong>("lazy_bucket_wrong"),
      defect<FailureHidden>("failure_hidden"),
      defect<SecondTakesOver>("second_takes_over"),
      defect<ArenaLost>("arena_lost"),
      defect<AllocationsUncounted>("allocations_uncounted"),
      defect<WorkspaceMoves>("workspace_moves"),
  };
  return entries;
}

}  // namespace encore::defects
