#include "gpu_backend.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "device_limits.h"
#include "encore/lowering/lowered_model.h"
#include "encore/lowering/model_check.h"
#include "encore/lowering/parallel_model.h"
#include "encore/lowering/shard.h"
#include "encore/sdk/host.h"
#include "gpu_ranks.h"
#include "gpu_status.h"
#include "kernels/gpu/norm.h"
#include "selftest.h"
#include "tuning_option.h"

namespace encore::gpu {
namespace {

constexpr int32_t kMaxLoadThreads = 64;
constexpr int64_t kMaxFailingAllocation = int64_t{1} << 40;

template <typename T>
Result<T> number(const OptionValues& options, std::string_view key, T low, T high) {
  const std::string text = option_value(options, key, "0");
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

// Of the current device.
Result<DeviceMemory> current_memory() {
  size_t free = 0;
  size_t total = 0;
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuMemGetInfo(&free, &total), "reading device memory"));
  return DeviceMemory{static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

}  // namespace

std::string option_value(const OptionValues& options, std::string_view key,
                         std::string_view fallback) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const auto& option) { return option.first == key; });
  return found == options.end() ? std::string(fallback) : found->second;
}

std::vector<OptionSchema> GpuBackend::option_schema() const {
  OptionSchema threads{"load_threads",
                       OptionType::kInt,
                       "0",
                       0,
                       kMaxLoadThreads,
                       {},
                       "Threads that read weights and copy them to the device; 0 takes one a core, "
                       "at most 8."};
  OptionSchema failing{"fail_allocation",
                       OptionType::kInt,
                       "0",
                       0,
                       static_cast<double>(kMaxFailingAllocation),
                       {},
                       "Test aid: the allocation of this number, from 1, fails as if memory had "
                       "run out; 0 fails none."};
  return {threads, failing};
}

Status GpuBackend::find_devices() {
  int count = 0;
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuGetDeviceCount(&count), "counting devices"));
  for (int32_t device = 0; device < count; ++device) {
    ENCORE_ASSIGN_OR_RETURN(FoundDevice found, describe(device));
    std::array<char, 32> bus_id{};
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device),
                   "reading a device's bus id"));
    found.bus_id = bus_id.data();
    int processors = 0;
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuDeviceGetAttribute(&processors, gpuAttributeMultiprocessors, device),
                   "reading a device attribute"));
    int lanes = 0;
    ENCORE_RETURN_IF_ERROR(gpu_status(gpuDeviceGetAttribute(&lanes, gpuAttributeWarpSize, device),
                                      "reading a device attribute"));
    found.traits.num_processors = processors;
    found.traits.lanes = lanes;
    devices_.push_back(std::move(found));
  }
  return {};
}

Status GpuBackend::init(const OptionValues& options) {
  if (ready_) {
    return failed_precondition("the " + platform_ + " backend is already initialised");
  }
  ENCORE_ASSIGN_OR_RETURN(load_threads_,
                          number<int32_t>(options, "load_threads", 0, kMaxLoadThreads));
  ENCORE_ASSIGN_OR_RETURN(account_.failing_allocation,
                          number<int64_t>(options, "fail_allocation", 0, kMaxFailingAllocation));
  tuning_folder_ = gpu::tuning_folder(options);
  ENCORE_RETURN_IF_ERROR(read_options(options));
  const ProbeResult probed = probe();
  if (!probed.usable) return unavailable(probed.reason);
  Status found = find_devices();
  if (!found.ok()) devices_.clear();
  ready_ = found.ok();
  return found;
}

void GpuBackend::shutdown() {
  devices_.clear();
  ready_ = false;
}

Status GpuBackend::check_device(int32_t device) const {
  if (!ready_) return failed_precondition("the " + platform_ + " backend is not initialised");
  if (device < 0 || device >= device_count()) {
    return invalid_argument("device is " + std::to_string(device) + "; there are " +
                            std::to_string(device_count()) + " " + platform_ + " devices");
  }
  const std::string& unusable = devices_[static_cast<size_t>(device)].unusable;
  return unusable.empty() ? Status() : unavailable(unusable);
}

Result<DeviceInfo> GpuBackend::device_info(int32_t device) const {
  const Status checked = check_device(device);
  if (!checked.ok() && checked.code() != StatusCode::kUnavailable) return checked;
  const FoundDevice& found = devices_[static_cast<size_t>(device)];
  return DeviceInfo{identity().name + ":" + std::to_string(device) + " " + found.bus_id, found.name,
                    found.architecture,
                    checked.ok()
                        ? kCapabilityEager | kCapabilityPrefillFull | kCapabilityPrefillBreakable |
                              kCapabilityDecodeGraph | kCapabilityCollectives | kCapabilityAsync |
                              kCapabilityDeviceMemory
                        : 0};
}

Result<DeviceMemory> GpuBackend::device_memory(int32_t device) const {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_RETURN_IF_ERROR(select(device));
  return current_memory();
}

Status GpuBackend::select(int32_t device) const {
  const auto use = [&] {
    const std::optional<int64_t> bytes = bytes_in_use(devices_[static_cast<size_t>(device)]);
    if (!bytes) {
      sdk::log(sdk::LogLevel::kInfo,
               "what the driver itself takes on device " + std::to_string(device) +
                   " is left out of the account of memory: nothing here tells of it");
    }
    return bytes;
  };
  const auto set = [&] { return gpu_status(gpuSetDevice(device), "selecting the device"); };
  // Some make the context no earlier than they are asked something about it.
  const auto make = [&] {
    const Status status = set();
    return status.ok() ? current_memory().status() : status;
  };
  ENCORE_RETURN_IF_ERROR(contexts_.make_once(device, use, make));
  return set();
}

// The BLAS belongs to the device that is current when it is made.
Result<std::unique_ptr<Blas>> GpuBackend::select_and_make_blas(int32_t device) {
  ENCORE_RETURN_IF_ERROR(select(device));
  return make_blas(devices_[static_cast<size_t>(device)]);
}

Result<DeviceLimits> GpuBackend::measure_limits(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_ASSIGN_OR_RETURN(const auto blas, select_and_make_blas(device));
  return gpu::measure_limits(*blas, devices_[static_cast<size_t>(device)].traits, account_);
}

Status GpuBackend::check_model(int32_t device, const ModelSpec& spec,
                               std::span<const WeightInfo> weights) const {
  const auto multiple_of_8 = [this](const char* name, int64_t value) -> Status {
    if (value % 8 == 0) return {};
    return unimplemented(std::string(name) + " is " + std::to_string(value) + "; the " + platform_ +
                         " backend takes multiples of 8");
  };
  ENCORE_RETURN_IF_ERROR(multiple_of_8("hidden_size", spec.hidden_size));
  ENCORE_RETURN_IF_ERROR(multiple_of_8("intermediate_size", spec.intermediate_size));
  ENCORE_RETURN_IF_ERROR(multiple_of_8("head_dim", spec.head_dim));
  const auto up_to = [this](const char* name, int64_t value, int64_t most) -> Status {
    if (value <= most) return {};
    return unimplemented(std::string(name) + " is " + std::to_string(value) + "; the " + platform_ +
                         " backend takes up to " + std::to_string(most));
  };
  ENCORE_RETURN_IF_ERROR(up_to("hidden_size", spec.hidden_size, kRmsNormMaxColumns));
  ENCORE_RETURN_IF_ERROR(up_to("head_dim", spec.head_dim, 256));
  ENCORE_RETURN_IF_ERROR(lowering::check_model(spec, weights));
  return check_device(device);
}

Result<std::unique_ptr<Model>> GpuBackend::load_model(int32_t device, const ModelSpec& spec,
                                                      const WeightSource& weights,
                                                      const LoadOptions& options) {
  ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
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

Result<std::unique_ptr<GpuDevice>> GpuBackend::make_device(int32_t device) {
  ENCORE_ASSIGN_OR_RETURN(auto blas, select_and_make_blas(device));
  const DeviceTraits& traits = devices_[static_cast<size_t>(device)].traits;
  return GpuDevice::create({device, traits, overlap_, load_threads_, tuning_folder_, tracer()},
                           std::move(blas), account_);
}

Result<std::unique_ptr<Model>> GpuBackend::load_ranks(int32_t first, const ModelSpec& spec,
                                                      const WeightSource& weights,
                                                      const LoadOptions& options) {
  const int32_t num_ranks = options.tensor_parallel_size;
  if (options.tensor_parallel_rank != kAllRanks) {
    return unimplemented("tensor_parallel_rank is " + std::to_string(options.tensor_parallel_rank) +
                         "; the " + platform_ + " backend runs all ranks in one process");
  }
  if (num_ranks < 1 || num_ranks > device_count() - first) {
    return invalid_argument(std::to_string(num_ranks) + " ranks from device " +
                            std::to_string(first) + " on were asked for; there are " +
                            std::to_string(device_count()) + " " + platform_ + " devices");
  }
  std::vector<int32_t> ordinals;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    ENCORE_ASSIGN_OR_RETURN(const ModelSpec part, lowering::shard_spec(spec, {rank, num_ranks}));
    ENCORE_RETURN_IF_ERROR(check_model(first + rank, part, {}));
    ordinals.push_back(first + rank);
  }
  ENCORE_ASSIGN_OR_RETURN(auto peers, make_peers(std::move(ordinals)));
  auto ranks = std::make_unique<GpuRanks>(std::move(peers), overlap_, [this, first](int32_t rank) {
    return make_device(first + rank);
  });
  return lowering::ParallelModel::load(std::move(ranks), spec, weights, options);
}

std::vector<std::pair<std::string, int64_t>> GpuBackend::stats() const {
  return {{"models_loaded", models_loaded_},
          {"memory.context_bytes", contexts_.bytes()},
          {"memory.allocated_bytes", account_.device_bytes},
          {"memory.page_locked_bytes", account_.host_bytes},
          {"memory.allocations", account_.num_allocations}};
}

Status GpuBackend::selftest(int32_t device) {
  ENCORE_RETURN_IF_ERROR(check_device(device));
  ENCORE_ASSIGN_OR_RETURN(const auto blas, select_and_make_blas(device));
  return gpu::selftest(*blas, devices_[static_cast<size_t>(device)].traits, account_);
}

}  // namespace encore::gpu
