// The fake backend's model, KV cache and runners.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/buckets.h"
#include "fake_backend.h"

namespace encore {

// Bytes on the fake device, for the holder's life.
class FakeAllocation {
 public:
  FakeAllocation(std::shared_ptr<FakeMemory> memory, int64_t bytes, int64_t graph_bytes = 0)
      : memory_(std::move(memory)), bytes_(bytes), graph_bytes_(graph_bytes) {
    memory_->allocated_bytes += bytes_;
    memory_->graph_bytes += graph_bytes_;
  }
  ~FakeAllocation() {
    memory_->allocated_bytes -= bytes_;
    memory_->graph_bytes -= graph_bytes_;
  }
  FakeAllocation(const FakeAllocation&) = delete;
  FakeAllocation& operator=(const FakeAllocation&) = delete;

 private:
  std::shared_ptr<FakeMemory> memory_;
  int64_t bytes_;
  int64_t graph_bytes_;
};

class FakeKv : public KvCache {
 public:
  FakeKv(const KvOptions& options, std::shared_ptr<FakeMemory> memory)
      : options_(options),
        tokens_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(options.page_size)),
        allocation_(std::move(memory), page_bytes() * options.num_pages) {}

  KvInfo info() const override;
  Status copy_pages(std::span<const PageCopy> copies) override;
  Status read_page(int32_t page, std::span<std::byte> destination) const override;

  // The token stored at a position of a request with those pages.
  int32_t& token(std::span<const int32_t> pages, int32_t position) {
    const auto page = static_cast<size_t>(pages[position / options_.page_size]);
    return tokens_[page * options_.page_size + position % options_.page_size];
  }

  std::vector<int32_t> last_sampled;  // by the previous step on this cache

 private:
  int64_t page_bytes() const { return int64_t{options_.page_size} * int64_t{sizeof(int32_t)}; }

  KvOptions options_;
  std::vector<int32_t> tokens_;
  FakeAllocation allocation_;
};

class FakeModel : public Model {
 public:
  // Bytes that each runner and each graph takes on the device.
  static constexpr int64_t kArenaBytes = 2000;
  static constexpr int64_t kExecutableBytes = 300;

  FakeModel(const ModelSpec& spec, const FakeOptions& options, std::shared_ptr<FakeMemory> memory,
            int64_t weight_bytes)
      : spec_(spec),
        options_(options),
        weight_bytes_(weight_bytes),
        memory_(std::move(memory)),
        weights_(memory_, weight_bytes + kWorkspaceBytes) {}

  ModelInfo info() const override;
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override;
  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override;
  Status set_layer_observer(LayerObserver observer) override;
  Status check_guards() const override;

  const ModelSpec& spec() const { return spec_; }
  const FakeOptions& options() const { return options_; }
  const LayerObserver& observer() const { return observer_; }

 private:
  static constexpr int64_t kWorkspaceBytes = 64;

  Result<RunnerCapture> capture(RunnerKind kind, KvCache& kv, const CaptureOptions& options,
                                std::vector<int32_t> sizes, int32_t maximum);

  ModelSpec spec_;
  FakeOptions options_;
  int64_t weight_bytes_;
  std::shared_ptr<FakeMemory> memory_;
  FakeAllocation weights_;
  LayerObserver observer_;
};

// Computes in submit(); wait() only checks the order of tickets.
class FakeRunner : public Runner {
 public:
  FakeRunner(FakeModel& model, FakeKv& kv, RunnerKind kind, Buckets buckets, bool padding,
             std::unique_ptr<FakeAllocation> allocation)
      : model_(model),
        kv_(kv),
        kind_(kind),
        buckets_(std::move(buckets)),
        padding_(padding),
        allocation_(std::move(allocation)) {}
  ~FakeRunner() override;
  FakeRunner(const FakeRunner&) = delete;
  FakeRunner& operator=(const FakeRunner&) = delete;

  RunnerKind kind() const override { return kind_; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override;
  Status wait(Ticket ticket, int64_t timeout_us) override;

 private:
  bool is_stuck() const { return model_.options().fail_in == "wait"; }
  Status write_tokens(const ForwardBatch& batch);
  void sample_row(const ForwardBatch& batch, const StepOutput& output, int32_t row);
  void show_layers(const ForwardBatch& batch) const;

  FakeModel& model_;
  FakeKv& kv_;
  RunnerKind kind_;
  Buckets buckets_;
  bool padding_;
  std::unique_ptr<FakeAllocation> allocation_;
  std::vector<float> logits_;
  std::deque<Ticket> in_flight_;
  Ticket next_ticket_ = 1;
};

}  // namespace encore
