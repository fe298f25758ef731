#include "cuda_backend.h"

#include <cuda_runtime.h>

#include <string>
#include <string_view>
#include <utility>

#include "cublas_lt.h"
#include "cuda_nccl.h"
#include "gpu_status.h"
#include "kernel_trace.h"
#include "nvml_library.h"
#include "tuning_option.h"

namespace encore::cuda {
namespace {

// "sm_90a, sm_80" as this build was made for.
constexpr std::string_view kArchitectures = ENCORE_CUDA_ARCHITECTURES;

// Code for sm_80 runs on all of 8.x; that for sm_90a on 9.0 alone.
bool built_for(int32_t compute_capability) {
  if (compute_capability == 90) return kArchitectures.find("90a") != std::string_view::npos;
  return compute_capability / 10 == 8 && kArchitectures.find("80") != std::string_view::npos;
}

std::string architecture_name(int32_t compute_capability) {
  return "sm_" + std::to_string(compute_capability) + (compute_capability == 90 ? "a" : "");
}

}  // namespace

BackendIdentity CudaBackend::identity() const {
  return {"cuda", "Encore", ENCORE_VERSION,
          "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
              std::to_string(CUDART_VERSION % 1000 / 10) + ", " + std::string(kArchitectures)};
}

std::vector<OptionSchema> CudaBackend::option_schema() const {
  OptionSchema overlap{"overlap",
                       OptionType::kBool,
                       "true",
                       0,
                       -1,
                       {},
                       "Let a kernel start before the one before it has ended (programmatic "
                       "dependent launch)."};
  std::vector<OptionSchema> schema = GpuBackend::option_schema();
  schema.insert(schema.begin(), overlap);
  schema.insert(schema.begin() + 2, gpu::tuning_option());
  return schema;
}

Status CudaBackend::read_options(const OptionValues& options) {
  set_overlap(gpu::option_value(options, "overlap", "true") != "false");
  return {};
}

ProbeResult CudaBackend::probe() const {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (driver == 0) return {false, "no CUDA driver"};
    return {false, "the CUDA driver is of version " + std::to_string(driver / 1000) + "." +
                       std::to_string(driver % 1000 / 10) + "; this build needs " +
                       std::to_string(CUDART_VERSION / 1000) + ".0 or later"};
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return {false, "no CUDA device"};
  }
  if (error != cudaSuccess) return {false, cudaGetErrorString(error)};
  return {true, ""};
}

Result<gpu::FoundDevice> CudaBackend::describe(int32_t device) const {
  cudaDeviceProp properties{};
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaGetDeviceProperties(&properties, device),
                                         "reading a device's properties"));
  gpu::FoundDevice found;
  found.name = properties.name;
  found.traits.compute_capability = 10 * properties.major + properties.minor;
  found.traits.matrix_unit = gpu::MatrixUnit::kMma;
  found.architecture = architecture_name(found.traits.compute_capability);
  if (!built_for(found.traits.compute_capability)) {
    found.unusable = "device " + std::to_string(device) + " (" + found.name + ") is " +
                     found.architecture + "; this build is for " + std::string(kArchitectures) +
                     ": build with ENCORE_CUDA_ARCHITECTURES";
  }
  return found;
}

Result<std::unique_ptr<gpu::Blas>> CudaBackend::make_blas(const gpu::FoundDevice&) {
  return make_cublas_lt(tuning_folder());
}

Result<std::shared_ptr<gpu::RankPeers>> CudaBackend::make_peers(std::vector<int32_t> ordinals) {
  ENCORE_ASSIGN_OR_RETURN(const gpu::NcclFunctions nccl, open_nccl());
  return gpu::RankPeers::create(nccl, gpu::RankPeers::Kernels::kOwn, std::move(ordinals),
                                account());
}

std::optional<int64_t> CudaBackend::bytes_in_use(const gpu::FoundDevice& device) const {
  static const Result<NvmlFunctions> nvml = open_nvml(nvml_candidates());
  return nvml.ok() ? cuda::bytes_in_use(*nvml, device.bus_id) : std::nullopt;
}

gpu::Tracer* CudaBackend::tracer() { return &kernel_trace(); }

}  // namespace encore::cuda
