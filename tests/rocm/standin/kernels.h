// Kernels that the program has registered, found in the library of kernels compiled for the host.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_library.h"
#include "operation.h"

namespace encore::standin {

// What the compiler makes for a file's device code, and passes to __hipRegisterFatBinary().
struct FatBinary {
  uint32_t magic;  // kFatBinaryMagic
  uint32_t version;
  const void* bundle;
  void* unused;
};
inline constexpr uint32_t kFatBinaryMagic = 0x48495046;  // "HIPF"

void register_kernel(const FatBinary* binary, const void* host_function, const char* device_name);
void forget_kernels(const FatBinary* binary);

// A kernel with its arguments, which are copied here and now.
// Errors, each with a line on stderr: hipErrorInvalidDeviceFunction for a function that nobody
// registered or that the library lacks; hipErrorNoBinaryForGpu if the program has no code for this
// architecture, or code for wavefronts of another width; hipErrorInvalidConfiguration for too many
// threads or none; hipErrorInvalidValue for too much shared memory.
hipError_t make_launch(const void* host_function, const EncoreHostGrid& grid, void** arguments,
                       std::shared_ptr<Operation>* launch);

// Whether a kernel of that host function is registered.
bool has_kernel(const void* host_function);

}  // namespace encore::standin
