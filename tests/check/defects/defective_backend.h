// The CPU backend with one seeded defect.
#pragma once

#include <memory>

#include "encore/backend.h"

namespace encore::defects {

// Every call goes through active_defect(). Threads: as Backend.
class DefectiveBackend final : public Backend {
 public:
  DefectiveBackend();

  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;
  Status init(const OptionValues& options) override;
  void shutdown() override;
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
  std::unique_ptr<Backend> sound_;
};

}  // namespace encore::defects
