// A plugin's model as the host sees it.
#pragma once

#include <memory>
#include <utility>

#include "encore/backend.h"
#include "plugin_context.h"
#include "weight_bridge.h"

namespace encore {

// Owns the plugin's handle and what the plugin borrows for the model's life: the weight callbacks
// and the layer observer.
class ModelProxy : public Model {
 public:
  static Result<std::unique_ptr<Model>> load(std::shared_ptr<const PluginContext> context,
                                             int32_t device, const ModelSpec& spec,
                                             const WeightSource& weights,
                                             const LoadOptions& options);
  ~ModelProxy() override;
  ModelProxy(const ModelProxy&) = delete;
  ModelProxy& operator=(const ModelProxy&) = delete;

  ModelInfo info() const override;
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override;
  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override;
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override;
  Status set_layer_observer(LayerObserver observer) override;
  Status check_guards() const override;
  Status fail_capture(int32_t bucket, Reason reason) override;

 private:
  ModelProxy(std::shared_ptr<const PluginContext> context, const WeightSource& weights)
      : context_(std::move(context)), weights_(weights) {}

  using CreateFunction = decltype(encore_backend_table::eager_create);
  Result<RunnerCapture> create_runner(CreateFunction function, RunnerKind kind, KvCache& kv,
                                      const CaptureOptions& options);
  static void observe(void* context, const encore_layer_output* output) noexcept;

  std::shared_ptr<const PluginContext> context_;
  WeightBridge weights_;
  std::unique_ptr<LayerObserver> observer_;
  encore_model* handle_ = nullptr;
};

}  // namespace encore
