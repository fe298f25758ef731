// AMD's devices as an Encore backend.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu_backend.h"
#include "rocm_blas.h"

namespace encore::rocm {

class RocmBackend final : public gpu::GpuBackend {
 public:
  RocmBackend() : GpuBackend("ROCm") {}

  BackendIdentity identity() const override;
  std::vector<OptionSchema> option_schema() const override;
  ProbeResult probe() const override;
  std::vector<std::pair<std::string, int64_t>> stats() const override;

 private:
  Status read_options(const OptionValues& options) override;
  Result<gpu::FoundDevice> describe(int32_t device) const override;
  Result<std::unique_ptr<gpu::Blas>> make_blas(const gpu::FoundDevice& device) override;
  Result<std::shared_ptr<gpu::RankPeers>> make_peers(std::vector<int32_t> ordinals) override;
  std::optional<int64_t> bytes_in_use(const gpu::FoundDevice& device) const override;
  // None: AMD's profilers attach from outside.
  gpu::Tracer* tracer() override { return nullptr; }

  BlasChoice blas_ = BlasChoice::kAuto;
  BlasCounts blas_counts_;
};

}  // namespace encore::rocm
