#include <cstdlib>
#include <cstring>

#include "gpu_on_cpu.h"

// As much of an H200 as launch functions ask for, but few multiprocessors, so that grids stay
// small.
gpuError_t gpuDeviceGetAttribute(int* value, gpuAttribute attribute, int) {
  *value = attribute == gpuAttributeMultiprocessors ? 4 : 32;
  return gpuSuccess;
}

gpuError_t gpuMalloc(void** data, size_t bytes) {
  constexpr size_t kAlign = 256;
  *data = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  return *data == nullptr ? gpuErrorOutOfMemory : gpuSuccess;
}

gpuError_t gpuFree(void* data) {
  std::free(data);
  return gpuSuccess;
}

gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuMemcpyKind, gpuStream_t) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return gpuSuccess;
}

gpuError_t gpuMemsetAsync(void* to, int byte, size_t bytes, gpuStream_t) {
  std::memset(to, byte, bytes);
  return gpuSuccess;
}

const char* gpuGetErrorString(gpuError_t error) {
  switch (error) {
    case gpuSuccess:
      return "success";
    case gpuErrorInvalidValue:
      return "invalid value";
    case gpuErrorOutOfMemory:
      return "out of memory";
  }
  return "unknown";
}
