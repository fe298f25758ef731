// Device code as a program brings it: a bundle with a code object for each architecture.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace encore::standin {

// What a kernel's descriptor says of it. LLVM, "User Guide for AMDGPU Backend", kernel descriptor.
struct DeviceKernel {
  uint32_t local_bytes = 0;  // of static shared memory
  int lanes = 64;            // of the wavefronts that it is compiled for
};

// The architectures of a bundle: "gfx90a", "gfx942:xnack-". Empty if the bytes are no bundle.
std::vector<std::string> architectures_of(const void* bundle);

// The kernels of the code object for that architecture, by name; nothing if the bundle has none.
std::optional<std::map<std::string, DeviceKernel>> device_kernels(const void* bundle,
                                                                  const std::string& architecture);

}  // namespace encore::standin
