// A plugin's backend as the host sees it: encore::Backend over the C ABI.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "plugin_context.h"

namespace encore {

// Forwards every call and checks every answer. Threads as Backend says. Shuts the plugin down when
// destroyed, if it was initialised through this object.
class BackendProxy : public Backend {
 public:
  explicit BackendProxy(std::shared_ptr<const PluginContext> context)
      : context_(std::move(context)) {}
  ~BackendProxy() override { stop(); }
  BackendProxy(const BackendProxy&) = delete;
  BackendProxy& operator=(const BackendProxy&) = delete;

  BackendIdentity identity() const override { return context_->identity; }
  std::vector<OptionSchema> option_schema() const override { return context_->schema; }
  ProbeResult probe() const override;
  Status init(const OptionValues& options) override;
  void shutdown() override { stop(); }
  int32_t device_count() const override;
  Result<DeviceInfo> device_info(int32_t device) const override;
  Result<DeviceMemory> device_memory(int32_t device) const override;
  Result<DeviceLimits> measure_limits(int32_t device) override;
  Status check_model(int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) const override;
  Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override;
  std::vector<std::pair<std::string, int64_t>> stats() const override;
  Status selftest(int32_t device) override;

 private:
  const encore_backend_table& table() const { return context_->table; }
  // kFailedPrecondition unless init() has succeeded: the ABI promises plugins that order.
  Status require_init(const char* function) const;
  void stop();

  std::shared_ptr<const PluginContext> context_;
  std::atomic<bool> initialised_ = false;
};

}  // namespace encore
