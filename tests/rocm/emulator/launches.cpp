// What the host side of kernels/gpu calls of HIP, for an emulator: registration of kernels, and
// launches, which go to a function that the emulator's driver gives.
//
// Not thread-safe. Linked with encore_kernels_hip in place of libamdhip64.
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>

namespace {

// Runs the whole grid before it returns. `arguments`: pointers to the kernel's arguments.
// Returns whether it did.
using RunKernel = int32_t (*)(const char* mangled_name, const uint32_t grid[3],
                              const uint32_t block[3], uint64_t dynamic_lds_bytes,
                              void** arguments);

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  hipStream_t stream = nullptr;
};

struct Launches {
  std::unordered_map<const void*, std::string> names;  // of kernels, by the host's function
  CallConfiguration configuration;
  RunKernel run = nullptr;
  hipError_t last_error = hipSuccess;
};

Launches& launches() {
  static Launches instance;
  return instance;
}

}  // namespace

extern "C" {

void encore_emulator_set_run_kernel(RunKernel run) { launches().run = run; }

// NOLINTBEGIN(readability-identifier-naming): HIP's own names
void** __hipRegisterFatBinary(const void* /*data*/) {
  static void* handle = nullptr;
  return &handle;
}
void __hipUnregisterFatBinary(void** /*handle*/) {}
void __hipRegisterFunction(void** /*handle*/, const void* host_function, char* device_function,
                           const char* /*device_name*/, unsigned /*thread_limit*/,
                           uint3* /*thread_id*/, uint3* /*block_id*/, dim3* /*block*/,
                           dim3* /*grid*/, int* /*warp_size*/) {
  launches().names[host_function] = device_function;
}
// NOLINTEND(readability-identifier-naming)

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                      hipStream_t stream) {
  launches().configuration = {grid, block, shared_bytes, stream};
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                     hipStream_t* stream) {
  const CallConfiguration& from = launches().configuration;
  *grid = from.grid;
  *block = from.block;
  *shared_bytes = from.shared_bytes;
  *stream = from.stream;
  return hipSuccess;
}

hipError_t hipLaunchKernel(const void* host_function, dim3 grid, dim3 block, void** arguments,
                           size_t shared_bytes, hipStream_t /*stream*/) {
  Launches& state = launches();
  const auto found = state.names.find(host_function);
  const uint32_t grid_size[3] = {grid.x, grid.y, grid.z};
  const uint32_t block_size[3] = {block.x, block.y, block.z};
  hipError_t error = hipSuccess;
  if (found == state.names.end() || state.run == nullptr) {
    error = hipErrorInvalidDeviceFunction;
  } else if (!state.run(found->second.c_str(), grid_size, block_size, shared_bytes, arguments)) {
    error = hipErrorLaunchFailure;
  }
  if (error != hipSuccess) state.last_error = error;
  return error;
}
hipError_t hipGetLastError() {
  const hipError_t error = launches().last_error;
  launches().last_error = hipSuccess;
  return error;
}
hipError_t hipFuncSetAttribute(const void* /*function*/, hipFuncAttribute /*attribute*/,
                               int /*value*/) {
  return hipSuccess;
}
// Device memory is the process's own, and everything before has run.
hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes,
                          hipMemcpyKind /*kind*/, hipStream_t /*stream*/) {
  std::memcpy(destination, source, bytes);
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* destination, int value, size_t bytes, hipStream_t /*stream*/) {
  std::memset(destination, value, bytes);
  return hipSuccess;
}

}  // extern "C"
