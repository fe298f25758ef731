#include "rocm_backend.h"

#include <hip/hip_runtime_api.h>

#include <string_view>

#include "gpu_status.h"
#include "rocm_architecture.h"
#include "rocm_rccl.h"
#include "tuning_option.h"
#include "vram_in_use.h"

namespace encore::rocm {
namespace {

// "gfx90a, gfx942" as this build was made for.
constexpr std::string_view kArchitectures = ENCORE_ROCM_ARCHITECTURES;

// HIP's numbers are 10,000,000 * major + 100,000 * minor + patch.
std::string version_text(int version) {
  return std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100);
}

// Empty if the run-time library has what this build was made with.
std::string outdated() {
  int version = 0;
  if (hipRuntimeGetVersion(&version) != hipSuccess || version >= HIP_VERSION / 100'000 * 100'000) {
    return "";
  }
  return "HIP run-time " + version_text(version) + " is older than " + version_text(HIP_VERSION) +
         ", which this build was made with";
}

}  // namespace

BackendIdentity RocmBackend::identity() const {
  return {"rocm", "Encore", ENCORE_VERSION,
          "HIP " + version_text(HIP_VERSION) + ", " + std::string(kArchitectures)};
}

std::vector<OptionSchema> RocmBackend::option_schema() const {
  std::vector<OptionSchema> schema = GpuBackend::option_schema();
  schema.push_back(gpu::tuning_option());
  schema.push_back({"blas",
                    OptionType::kEnum,
                    "auto",
                    0,
                    -1,
                    {"auto", "hipblaslt", "rocblas", "own"},
                    "Whose matrix products: hipBLASLt's, rocBLAS's, or own kernels; auto takes the "
                    "first of them that is installed and serves the device."});
  return schema;
}

ProbeResult RocmBackend::probe() const {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error != hipSuccess) static_cast<void>(hipGetLastError());
  if (error == hipErrorNoDevice || (error == hipSuccess && count == 0)) {
    return {false, "no AMD GPU"};
  }
  if (error != hipSuccess) {
    return {false, std::string(hipGetErrorName(error)) + " (" + hipGetErrorString(error) + ")"};
  }
  const std::string reason = outdated();
  return {reason.empty(), reason};
}

std::vector<std::pair<std::string, int64_t>> RocmBackend::stats() const {
  auto stats = GpuBackend::stats();
  stats.emplace_back("blas.hipblaslt", blas_counts_.hipblaslt);
  stats.emplace_back("blas.rocblas", blas_counts_.rocblas);
  stats.emplace_back("blas.own", blas_counts_.own);
  stats.emplace_back("blas.fallbacks", blas_counts_.fallbacks);
  return stats;
}

Status RocmBackend::read_options(const OptionValues& options) {
  ENCORE_ASSIGN_OR_RETURN(blas_, parse_blas(gpu::option_value(options, "blas", "auto")));
  return {};
}

Result<gpu::FoundDevice> RocmBackend::describe(int32_t device) const {
  hipDeviceProp_t properties{};
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(hipGetDeviceProperties(&properties, device),
                                         "reading a device's properties"));
  gpu::FoundDevice found;
  found.name = properties.name;
  found.architecture = architecture_of(properties.gcnArchName);
  found.traits.matrix_unit = matrix_unit_of(found.architecture);
  if (!built_for(kArchitectures, found.architecture)) {
    found.unusable = "device " + std::to_string(device) + " (" + found.name + ") is " +
                     found.architecture + "; this build is for " + std::string(kArchitectures) +
                     ": build with ENCORE_ROCM_ARCHITECTURES";
  }
  return found;
}

Result<std::unique_ptr<gpu::Blas>> RocmBackend::make_blas(const gpu::FoundDevice& device) {
  return make_rocm_blas(blas_, device.traits, tuning_folder(), blas_counts_);
}

// Own kernels would need memory that is coherent between GPUs while a kernel runs, and no machine
// could be had to try them on.
Result<std::shared_ptr<gpu::RankPeers>> RocmBackend::make_peers(std::vector<int32_t> ordinals) {
  ENCORE_ASSIGN_OR_RETURN(const gpu::NcclFunctions rccl, open_rccl());
  return gpu::RankPeers::create(rccl, gpu::RankPeers::Kernels::kLibrary, std::move(ordinals),
                                account());
}

std::optional<int64_t> RocmBackend::bytes_in_use(const gpu::FoundDevice& device) const {
  return vram_in_use(device.bus_id);
}

}  // namespace encore::rocm
