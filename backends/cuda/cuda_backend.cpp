#include "cuda_backend.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "cublas_lt.h"
#include "cuda_ranks.h"
#include "device.h"
#include "device_limits.h"
#include "encore/lowering/lowered_model.h"
#include "encore/lowering/model_check.h"
#include "encore/lowering/parallel_model.h"
#include "encore/lowering/shard.h"
#include "gpu_status.h"
#include "kernel_trace.h"
#include "selftest.h"
#include "tuning_cache.h"

namespace encore::cuda {
namespace {

constexpr int32_t kMaxLoadThreads = 64;
constexpr int64_t kMaxFailingAllocation = int64_t{1} << 40;

// "sm_90a, sm_80" as this build was made for.
constexpr std::string_view kArchitectures = ENCORE_CUDA_ARCHITECTURES;

std::string value_of(const OptionValues& options, std::string_view key, std::string_view fallback) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  return found == options.end() ? std::string(fallback) : found->second;
}

template <typename T>
Result<T> number(const OptionValues& options, std::string_view key, T low, T high) {
  const std::string text = value_of(options, key, "0");
  T value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < low ||
      value > high) {
    return invalid_argument("backend.options." + std::string(key) + " is '" + text +
                            "'; it must be from " + std::to_string(low) + " to " +
                            std::to_string(high));
  }
  return value;
}

// Code for sm_80 runs on all of 8.x; that for sm_90a on 9.0 alone.
bool built_for(int32_t compute_capability) {
  if (compute_capability == 90) return kArchitectures.find("90a") != std::string_view::npos;
  return compute_capability / 10 == 8 && kArchitectures.find("80") != std::string_view::npos;
}

Result<int32_t> attribute(cudaDeviceAttr which, int32_t device) {
  int value = 0;
  ENCORE_RETURN_IF_ERROR(
      gpu::gpu_status(cudaDeviceGetAttribute(&value, which, device), "reading a device attribute"));
  return value;
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
  OptionSchema threads{"load_threads",
                       OptionType::kInt,
                       "0",
                       0,
                       kMaxLoadThreads,
                       {},
                       "Threads that read weights and copy them to the device; 0 takes one a core, "
                       "at most 8."};
  OptionSchema tuning{"tuning_cache",
                      OptionType::kString,
                      "auto",
                      0,
                      -1,
                      {},
                      "Folder that keeps which matrix algorithms were fastest; auto is "
                      "$XDG_CACHE_HOME/encore or ~/.cache/encore, off keeps nothing."};
  OptionSchema failing{"fail_allocation",
                       OptionType::kInt,
                       "0",
                       0,
                       static_cast<double>(kMaxFailingAllocation),
                       {},
                       "Test aid: the allocation of this number, from 1, fails as if memory had "
                       "run out; 0 fails none."};
  return {overlap, threads, tuning, failing};
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

Status CudaBackend::find_devices() {
  int count = 0;
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaGetDeviceCount(&count), "counting devices"));
  for (int32_t device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaGetDeviceProperties(&properties, device),
                                           "reading a device's properties"));
    std::array<char, 32> bus_id{};
    ENCORE_RETURN_IF_ERROR(gpu::gpu_status(
        cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), device), "reading a device's bus id"));
    Found found;
    found.name = properties.name;
    found.bus_id = bus_id.data();
    found.compute_capability = 10 * properties.major + properties.minor;
    ENCORE_ASSIGN_OR_RETURN(found.num_processors,
                            attribute(cudaDevAttrMultiProcessorCount, device));
    if (!built_for(found.compute_capability)) {
      found.unusable = "device " + std::to_string(device) + " (" + found.name + ") is " +
                       architecture_name(found.compute_capability) + "; this build is for " +
                       std::string(kArchitectures) + ": build with ENCORE_CUDA_ARCHITECTURES";
    }
    devices_.push_back(std::move(found));
  }
  return {};
}

Status CudaBackend::init(const OptionValues& options) {
  if (ready_) return failed_precondition("the CUDA backend is already initialised");
  overlap_ = value_of(options, "overlap", "true") != "false";
  ENCORE_ASSIGN_OR_RETURN(load_threads_,
                          number<int32_t>(options, "load_threads", 0, kMaxLoadThreads));
  ENCORE_ASSIGN_OR_RETURN(account_.failing_allocation,
                          number<int64_t>(options, "fail_allocation", 0, kMaxFailingAllocation));
  const std::string folder = value_of(options, "tuning_cache", "auto");
  tuning_folder_ = folder == "auto"  ? gpu::default_tuning_folder()
                   : folder == "off" ? std::filesystem::path()
                                     : std::filesystem::path(folder);
  const ProbeResult probed = probe();
  if (!probed.usable) return unavailable(probed.reason);
  Status found = find_devices();
  if (!found.ok()) devices_.clear();
  ready_ = found.ok();
  return found;
}

void CudaBackend::shutdown() {
  devices_.clear();
  ready_ = false;
}

Status CudaBackend::check_device(int32_t device) const {
  if (!ready_) return failed_precondition("the CUDA backend is not initialised");
  if (device < 0 || device >= device_count()) {
    return invalid_argument("device is " + std::to_string(device) + "; there are " +
                            std::to_string(device_count()) + " CUDA devices");
  }
  const std::string& unusable = devices_[static_cast<size_t>(device)].unusable;
  return unusable.empty() ? Status() : unavailable(unusable);
}

Result<DeviceInfo> CudaBackend::device_info(int32_t device) const {
  const Status checked = check_device(device);
  if (!checked.ok() && checked.code() != StatusCode::kUnavailable) return checked;
  const Found& found = devices_[static_cast<size_t>(device)];
  return DeviceInfo{"cuda:" + std::to_string(device) + " " + found.bus_id, found.name,
                    architecture_name(found.compute_capability),
                    checked.ok()
                        ? kCapabilityEager | kCapabilityPrefillFull | kCapabilityPrefillBreakable |
                              kCapabilityDecodeGraph | kCapabilityCollectives | kCapabilityAsync |
                              kCapabilityDeviceMemory
                        : 0};
}

Result<DeviceMemory> CudaBackend::device_memory(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaSetDevice(device), "selecting the device"));
  size_t free = 0;
  size_t total = 0;
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaMemGetInfo(&free, &total), "reading device memory"));
  return DeviceMemory{static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

Result<DeviceLimits> CudaBackend::measure_limits(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaSetDevice(device), "selecting the device"));
  ENCORE_ASSIGN_OR_RETURN(auto blas, CublasLt::create(tuning_folder_));
  return gpu::measure_limits(*blas, devices_[static_cast<size_t>(device)].num_processors, account_);
}

Status CudaBackend::check_model(int32_t device, const ModelSpec& spec,
                                std::span<const WeightInfo> weights) const {
  const auto multiple_of_8 = [](const char* name, int64_t value) -> Status {
    if (value % 8 == 0) return {};
    return unimplemented(std::string(name) + " is " + std::to_string(value) +
                         "; the CUDA backend takes multiples of 8");
  };
  ENCORE_RETURN_IF_ERROR(multiple_of_8("hidden_size", spec.hidden_size));
  ENCORE_RETURN_IF_ERROR(multiple_of_8("intermediate_size", spec.intermediate_size));
  ENCORE_RETURN_IF_ERROR(multiple_of_8("head_dim", spec.head_dim));
  if (spec.head_dim > 256) {
    return unimplemented("head_dim is " + std::to_string(spec.head_dim) +
                         "; the CUDA backend takes up to 256");
  }
  ENCORE_RETURN_IF_ERROR(lowering::check_model(spec, weights));
  return check_device(device);
}

Result<std::unique_ptr<Model>> CudaBackend::load_model(int32_t device, const ModelSpec& spec,
                                                       const WeightSource& weights,
                                                       const LoadOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
  ENCORE_ASSIGN_OR_RETURN(const DeviceMemory memory, device_memory(device));
  if (context_bytes_ == 0) context_bytes_ = memory.total_bytes - memory.free_bytes;
  std::unique_ptr<Model> model;
  if (options.tensor_parallel_size == 1) {
    ENCORE_ASSIGN_OR_RETURN(auto made, make_device(device));
    ENCORE_ASSIGN_OR_RETURN(model,
                            lowering::LoweredModel::load(std::move(made), spec, weights, options));
  } else {
    ENCORE_ASSIGN_OR_RETURN(model, load_ranks(device, spec, weights, options));
  }
  ++models_loaded_;
  return model;
}

Result<std::unique_ptr<gpu::GpuDevice>> CudaBackend::make_device(int32_t device) {
  const Found& found = devices_[static_cast<size_t>(device)];
  // The BLAS belongs to the device that is current when it is made.
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaSetDevice(device), "selecting the device"));
  ENCORE_ASSIGN_OR_RETURN(auto blas, CublasLt::create(tuning_folder_));
  return gpu::GpuDevice::create({device, found.compute_capability, found.num_processors, overlap_,
                                 load_threads_, &kernel_trace()},
                                std::move(blas), account_);
}

Result<std::unique_ptr<Model>> CudaBackend::load_ranks(int32_t first, const ModelSpec& spec,
                                                       const WeightSource& weights,
                                                       const LoadOptions& options) {
  const int32_t num_ranks = options.tensor_parallel_size;
  if (options.tensor_parallel_rank != kAllRanks) {
    return unimplemented("tensor_parallel_rank is " + std::to_string(options.tensor_parallel_rank) +
                         "; the CUDA backend runs all ranks in one process");
  }
  if (num_ranks < 1 || num_ranks > device_count() - first) {
    return invalid_argument(std::to_string(num_ranks) + " ranks from device " +
                            std::to_string(first) + " on were asked for; there are " +
                            std::to_string(device_count()) + " CUDA devices");
  }
  std::vector<int32_t> ordinals;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    ENCORE_ASSIGN_OR_RETURN(const ModelSpec part, lowering::shard_spec(spec, {rank, num_ranks}));
    ENCORE_RETURN_IF_ERROR(check_model(first + rank, part, {}));
    ordinals.push_back(first + rank);
  }
  ENCORE_ASSIGN_OR_RETURN(auto peers, CudaPeers::create(std::move(ordinals), account_));
  auto ranks = std::make_unique<CudaRanks>(std::move(peers), overlap_, [this, first](int32_t rank) {
    return make_device(first + rank);
  });
  return lowering::ParallelModel::load(std::move(ranks), spec, weights, options);
}

std::vector<std::pair<std::string, int64_t>> CudaBackend::stats() const {
  return {{"models_loaded", models_loaded_},
          {"memory.context_bytes", context_bytes_},
          {"memory.allocated_bytes", account_.device_bytes},
          {"memory.page_locked_bytes", account_.host_bytes},
          {"memory.allocations", account_.num_allocations}};
}

Status CudaBackend::selftest(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_RETURN_IF_ERROR(gpu::gpu_status(cudaSetDevice(device), "selecting the device"));
  ENCORE_ASSIGN_OR_RETURN(auto blas, CublasLt::create(tuning_folder_));
  return gpu::selftest(*blas, account_);
}

}  // namespace encore::cuda
