// An encore::Model over a lowering Device: what most backends return from load_model().
#pragma once

#include <memory>
#include <string>

#include "encore/backend.h"
#include "encore/lowering/capture_faults.h"
#include "encore/lowering/device.h"
#include "encore/lowering/guarded_memory.h"
#include "encore/lowering/layer_stack.h"
#include "encore/lowering/step_context.h"
#include "encore/status.h"

namespace encore::lowering {

class LoweredModel;

// Pages of one model on one device, one more than asked for: the last is the sink that padding
// rows write to.
class LoweredKvCache final : public KvCache {
 public:
  KvInfo info() const override { return info_; }
  Status copy_pages(std::span<const PageCopy> copies) override;
  Status read_page(int32_t page, std::span<std::byte> destination) const override;

 private:
  friend class LoweredModel;
  LoweredKvCache(Device& device, int32_t num_layers) : device_(device), num_layers_(num_layers) {}
  std::byte* layer_page(int32_t layer, int32_t page) const;
  Status check_page(int32_t page) const;

  Device& device_;
  int32_t num_layers_;
  int64_t layer_page_bytes_ = 0;
  KvInfo info_;
  std::unique_ptr<GuardedMemory> pages_;
  std::shared_ptr<void> description_;
  std::shared_ptr<StepContext> context_;  // made by the first runner
};

// Owns the device and the weights; runners and caches borrow from it and must go first.
class LoweredModel final : public Model {
 public:
  // `spec` and `source` are those of the shard, see shard.h.
  // Errors: the weights'; kCancelled if options.progress says so.
  static Result<std::unique_ptr<LoweredModel>> load(std::unique_ptr<Device> device,
                                                    const ModelSpec& spec,
                                                    const WeightSource& source,
                                                    const LoadOptions& options,
                                                    const Shard& shard = {});
  // Allocates what the cache's runners share, if that has not been done: the part of making the
  // first runner that may run out of memory, and takes no step. Adds its bytes to the report.
  Status reserve(KvCache& kv, const CaptureOptions& options, CaptureReport* report) {
    return context_of(kv, options, report).status();
  }
  // The empty steps before the first capture; see StepContext::warm_up.
  // REQUIRES: reserve() succeeded.
  Status warm_up(KvCache& kv) { return static_cast<LoweredKvCache&>(kv).context_->warm_up(); }

  ModelInfo info() const override { return device_->model_info(); }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override;
  // Allocates the workspace already.
  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override;
  Status set_layer_observer(LayerObserver observer) override;
  Status check_guards() const override;
  Status fail_capture(int32_t bucket, Reason reason) override;

 private:
  explicit LoweredModel(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  DType kv_dtype(const KvOptions& options) const;
  // The cache's context, made now if there is none. Errors: kInvalidArgument if it was made with
  // other limits.
  Result<std::shared_ptr<StepContext>> context_of(KvCache& kv, const CaptureOptions& options,
                                                  CaptureReport* report);

  std::unique_ptr<Device> device_;
  mutable GuardList guards_;
  std::unique_ptr<LayerStack> stack_;
  // Shared with the runners, which look at it in every step: empty if there is none.
  std::shared_ptr<LayerObserver> observer_ = std::make_shared<LayerObserver>();
  std::shared_ptr<CaptureFaults> faults_ = std::make_shared<CaptureFaults>();
  int64_t planned_workspace_bytes_ = 0;      // allocated by plan_memory(), not yet reported
  std::weak_ptr<StepContext> last_context_;  // names the last step in a guard failure
};

}  // namespace encore::lowering
