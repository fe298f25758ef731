#include "kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "code_object.h"
#include "device.h"
#include "memory.h"
#include "misuse.h"
#include "settings.h"

namespace encore::standin {
namespace {

struct Registered {
  const FatBinary* binary = nullptr;
  std::string device_name;
  std::optional<EncoreHostKernel> host;  // once it has been launched
  DeviceKernel device;
};

auto& registered() {
  static auto& kernels = *new std::unordered_map<const void*, Registered>;
  return kernels;
}

// ---- The library of kernels ----

struct Library {
  EncoreFindKernel find = nullptr;
  EncoreRunKernel run = nullptr;
};

std::string library_path() {
  if (!settings().kernels.empty()) return settings().kernels;
  Dl_info self{};
  dladdr(reinterpret_cast<void*>(&register_kernel), &self);
  const std::string path = self.dli_fname == nullptr ? "" : self.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "libencore_gpu_kernels_on_cpu.so";
}

Library open_library() {
  const std::string path = library_path();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "stand-in: no kernels (ENCORE_STANDIN_KERNELS): %s\n", dlerror());
    std::abort();
  }
  const Library found{reinterpret_cast<EncoreFindKernel>(dlsym(handle, kFindKernelName)),
                      reinterpret_cast<EncoreRunKernel>(dlsym(handle, kRunKernelName))};
  if (found.find == nullptr || found.run == nullptr) {
    std::fprintf(stderr, "stand-in: %s has no kernels\n", path.c_str());
    std::abort();
  }
  return found;
}

const Library& library() {
  static const Library library = open_library();
  return library;
}

// ---- A launch ----

class KernelOperation final : public Operation {
 public:
  KernelOperation(std::string name, const EncoreHostKernel& kernel, const EncoreHostGrid& grid,
                  void** arguments)
      : name_(std::move(name)), kernel_(kernel), grid_(grid) {
    for (size_t i = 0; i < kernel.num_arguments; ++i) {
      const auto* bytes = static_cast<const std::byte*>(arguments[i]);
      arguments_.emplace_back(bytes, bytes + kernel.argument_bytes[i]);
    }
  }

  std::string what() const override { return "kernel " + name_; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeKernel; }
  hipError_t run() override {
    // Of the kernel's own: it may write to its parameters.
    std::vector<std::vector<std::byte>> copies = arguments_;
    std::vector<void*> pointers;
    pointers.reserve(copies.size());
    for (auto& copy : copies) pointers.push_back(copy.data());
    const FaultMessage message(name_.c_str());
    library().run(&kernel_, &grid_, pointers.data());
    return hipSuccess;
  }

 private:
  std::string name_;
  EncoreHostKernel kernel_;
  EncoreHostGrid grid_;
  std::vector<std::vector<std::byte>> arguments_;  // aligned as operator new aligns
};

hipError_t refuse(hipError_t error, const std::string& why) {
  std::fprintf(stderr, "stand-in: %s\n", why.c_str());
  return error;
}

hipError_t find_device_kernel(Registered& kernel) {
  static auto& cache =
      *new std::map<const FatBinary*, std::optional<std::map<std::string, DeviceKernel>>>;
  const std::string name = architecture().name;
  auto kernels = cache.find(kernel.binary);
  if (kernels == cache.end()) {
    kernels = cache.emplace(kernel.binary, device_kernels(kernel.binary->bundle, name)).first;
  }
  if (!kernels->second.has_value()) {
    return refuse(hipErrorNoBinaryForGpu,
                  "the program has no code of " + kernel.device_name + " for " + name);
  }
  const auto found = kernels->second->find(kernel.device_name);
  if (found == kernels->second->end()) {
    return refuse(hipErrorInvalidDeviceFunction,
                  "the program's code for " + name + " lacks " + kernel.device_name);
  }
  if (found->second.lanes != architecture().lanes) {
    return refuse(hipErrorNoBinaryForGpu, kernel.device_name + " is compiled for wavefronts of " +
                                              std::to_string(found->second.lanes) + "; " + name +
                                              " shall run " + std::to_string(architecture().lanes));
  }
  kernel.device = found->second;
  return hipSuccess;
}

hipError_t find_kernel(Registered& kernel) {
  if (kernel.host.has_value()) return hipSuccess;
  if (const hipError_t error = find_device_kernel(kernel); error != hipSuccess) return error;
  EncoreHostKernel host{};
  const char* why_not = library().find(kernel.device_name.c_str(), &host);
  if (why_not != nullptr) return refuse(hipErrorInvalidDeviceFunction, why_not);
  kernel.host = host;
  return hipSuccess;
}

hipError_t check_grid(const Registered& kernel, const EncoreHostGrid& grid) {
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    const uint64_t all = uint64_t{grid.grid[i]} * grid.block[i];  // work-items in this dimension
    if (all == 0 || all > UINT32_MAX) {
      return refuse(hipErrorInvalidConfiguration, kernel.device_name + ": " + std::to_string(all) +
                                                      " threads in dimension " + std::to_string(i) +
                                                      "; 1 to 2^32 - 1 can be launched");
    }
    threads *= grid.block[i];
  }
  if (threads > kMaxThreads) {
    return refuse(hipErrorInvalidConfiguration,
                  kernel.device_name + ": " + std::to_string(threads) + " threads a block");
  }
  const size_t shared = kernel.device.local_bytes + grid.shared_bytes;
  if (shared > kLocalBytes) {
    return refuse(hipErrorInvalidValue, kernel.device_name + ": " + std::to_string(shared) +
                                            " bytes of shared memory; a device has " +
                                            std::to_string(kLocalBytes));
  }
  return hipSuccess;
}

}  // namespace

void register_kernel(const FatBinary* binary, const void* host_function, const char* device_name) {
  registered()[host_function] = {binary, device_name, std::nullopt, {}};
}

void forget_kernels(const FatBinary* binary) {
  std::erase_if(registered(), [&](const auto& kernel) { return kernel.second.binary == binary; });
}

bool has_kernel(const void* host_function) {
  return registered().find(host_function) != registered().end();
}

hipError_t make_launch(const void* host_function, const EncoreHostGrid& grid, void** arguments,
                       std::shared_ptr<Operation>* launch) {
  const auto kernel = registered().find(host_function);
  if (kernel == registered().end()) {
    return refuse(hipErrorInvalidDeviceFunction, "a function that is no kernel is launched");
  }
  if (const hipError_t error = find_kernel(kernel->second); error != hipSuccess) return error;
  if (const hipError_t error = check_grid(kernel->second, grid); error != hipSuccess) return error;
  *launch = std::make_shared<KernelOperation>(kernel->second.device_name, *kernel->second.host,
                                              grid, arguments);
  return hipSuccess;
}

}  // namespace encore::standin
