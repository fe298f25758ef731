// Kernels: what compiled code calls to register them, and launching.
#include <vector>

#include "call.h"
#include "capture.h"
#include "device.h"
#include "kernels.h"
#include "misuse.h"

using encore::standin::call;
using encore::standin::CallKind;
using encore::standin::FatBinary;
using encore::standin::Lock;
using encore::standin::Operation;
using encore::standin::Stream;

namespace standin = encore::standin;

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  hipStream_t stream;
};

std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> configurations;
  return configurations;
}

}  // namespace

extern "C" {

// The handle is the file's wrapper itself; callers only pass it back.
void** __hipRegisterFatBinary(const void* data) {
  const auto* binary = static_cast<const FatBinary*>(data);
  if (binary->magic != standin::kFatBinaryMagic) {
    standin::note_misuse("device code of an unknown kind is registered");
  }
  return static_cast<void**>(const_cast<void*>(data));
}

void __hipRegisterFunction(void** binary, const void* host_function, char*, const char* device_name,
                           unsigned, void*, void*, void*, void*, int*) {
  const Lock lock(standin::run_time_mutex());
  standin::register_kernel(reinterpret_cast<const FatBinary*>(binary), host_function, device_name);
}

void __hipUnregisterFatBinary(void** binary) {
  const Lock lock(standin::run_time_mutex());
  standin::forget_kernels(reinterpret_cast<const FatBinary*>(binary));
}

// Variables of device code: kernels compiled for the host have their own.
void __hipRegisterVar(void**, void*, char*, char*, int, size_t, int, int) {}
void __hipRegisterManagedVar(void**, void**, void*, const char*, size_t, unsigned) {}

}  // extern "C"

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                      hipStream_t stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return hipSuccess;
}

hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                     hipStream_t* stream) {
  if (configurations().empty()) return hipErrorIllegalState;
  const Configuration last = configurations().back();
  configurations().pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *stream = last.stream;
  return hipSuccess;
}

hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                           size_t shared_bytes, hipStream_t handle) {
  return call("hipLaunchKernel", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    if (stream->device != standin::current_device()) {
      standin::note_misuse("a kernel is launched into a stream of another device");
      return hipErrorInvalidHandle;
    }
    std::shared_ptr<Operation> launch;
    const EncoreHostGrid size{{grid.x, grid.y, grid.z},
                              {block.x, block.y, block.z},
                              shared_bytes,
                              standin::architecture().lanes};
    const hipError_t error = standin::make_launch(function, size, arguments, &launch);
    return error == hipSuccess ? standin::enqueue(*stream, std::move(launch)) : error;
  });
}

hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
  return call("hipFuncSetAttribute", CallKind::kWork, [&](Lock&) {
    if (!standin::has_kernel(function)) return hipErrorInvalidDeviceFunction;
    if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize &&
        (value < 0 || static_cast<size_t>(value) > standin::kLocalBytes)) {
      return hipErrorInvalidValue;
    }
    return hipSuccess;
  });
}
