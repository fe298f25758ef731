// The CPU as an Encore backend: one device, all threads of this process's share of the machine.
// Ranks of a model share them out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "encore/backend.h"
#include "kernels/cpu/cpu_features.h"
#include "thread_team.h"

namespace encore::cpu {

class CpuBackend final : public Backend {
 public:
  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;
  Status init(const OptionValues& options) override;
  void shutdown() override;

  int32_t device_count() const override { return 1; }
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
  Status check_ready(int32_t device) const;
  // The threads divided among that many ranks, each with one at least.
  Result<std::vector<std::shared_ptr<ThreadTeam>>> divide_threads(int32_t num_ranks) const;
  std::string architecture() const;

  kernels::IsaLevel level_ = kernels::IsaLevel::kGeneric;
  std::vector<int32_t> processors_;  // one for each thread
  bool pin_ = true;
  std::shared_ptr<ThreadTeam> team_;
  std::atomic<int64_t> models_loaded_ = 0;
};

}  // namespace encore::cpu
