// CUDA devices as an Encore backend.
#pragma once

#include <memory>
#include <vector>

#include "gpu_backend.h"

namespace encore::cuda {

class CudaBackend final : public gpu::GpuBackend {
 public:
  CudaBackend() : GpuBackend("CUDA") {}

  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;

 private:
  Status read_options(const OptionValues& options) override;
  Result<gpu::FoundDevice> describe(int32_t device) const override;
  Result<std::unique_ptr<gpu::Blas>> make_blas(const gpu::FoundDevice& device) override;
  Result<std::shared_ptr<gpu::RankPeers>> make_peers(std::vector<int32_t> ordinals) override;
  std::optional<int64_t> bytes_in_use(const gpu::FoundDevice& device) const override;
  gpu::Tracer* tracer() override;
};

}  // namespace encore::cuda
