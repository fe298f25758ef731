// CUDA devices as an Encore backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "device.h"
#include "encore/backend.h"
#include "memory.h"

namespace encore::cuda {

class CudaBackend final : public Backend {
 public:
  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;
  Status init(const OptionValues& options) override;
  void shutdown() override;

  int32_t device_count() const override { return static_cast<int32_t>(devices_.size()); }
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
  // A device as it was found; numbers are the run-time's.
  struct Found {
    std::string name;
    std::string bus_id;
    int32_t compute_capability = 0;  // 10 * major + minor
    int32_t num_processors = 0;
    std::string unusable;  // why this build cannot use it; empty if it can
  };

  Status find_devices();
  Status check_device(int32_t device) const;
  Result<std::unique_ptr<gpu::GpuDevice>> make_device(int32_t device);
  // Rank r on device first + r.
  Result<std::unique_ptr<Model>> load_ranks(int32_t first, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options);

  std::vector<Found> devices_;
  gpu::MemoryAccount account_;
  bool ready_ = false;
  bool overlap_ = true;
  int32_t load_threads_ = 0;
  std::filesystem::path tuning_folder_;
  std::atomic<int64_t> context_bytes_ =
      0;  // taken on the device by the driver's context when first used
  std::atomic<int64_t> models_loaded_ = 0;
};

}  // namespace encore::cuda
