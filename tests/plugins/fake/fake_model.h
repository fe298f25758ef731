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

class FakeKv : public KvCache {
 public:
  explicit FakeKv(const KvOptions& options)
      : options_(options),
        tokens_(static_cast<size_t>(options.num_pages) * static_cast<size_t>(options.page_size)) {}

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
};

class FakeModel : public Model {
 public:
  FakeModel(const ModelSpec& spec, const FakeOptions& options, int64_t weight_bytes)
      : spec_(spec), options_(options), weight_bytes_(weight_bytes) {}

  ModelInfo info() const override;
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override;
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override;
  Status set_layer_observer(LayerObserver observer) override;
  Status check_guards() const override;

  const ModelSpec& spec() const { return spec_; }
  const FakeOptions& options() const { return options_; }
  const LayerObserver& observer() const { return observer_; }

 private:
  Result<RunnerCapture> capture(RunnerKind kind, KvCache& kv, const CaptureOptions& options,
                                std::vector<int32_t> sizes, int32_t maximum);

  ModelSpec spec_;
  FakeOptions options_;
  int64_t weight_bytes_;
  LayerObserver observer_;
};

// Computes in submit(); wait() only checks the order of tickets.
class FakeRunner : public Runner {
 public:
  FakeRunner(FakeModel& model, FakeKv& kv, RunnerKind kind, Buckets buckets, bool padding)
      : model_(model), kv_(kv), kind_(kind), buckets_(std::move(buckets)), padding_(padding) {}

  RunnerKind kind() const override { return kind_; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override;
  Status wait(Ticket ticket, int64_t timeout_us) override;

 private:
  Status write_tokens(const ForwardBatch& batch);
  void sample_row(const ForwardBatch& batch, const StepOutput& output, int32_t row);
  void show_layers(const ForwardBatch& batch) const;

  FakeModel& model_;
  FakeKv& kv_;
  RunnerKind kind_;
  Buckets buckets_;
  bool padding_;
  std::vector<float> logits_;
  std::deque<Ticket> in_flight_;
  Ticket next_ticket_ = 1;
};

}  // namespace encore
