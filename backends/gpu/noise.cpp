#include "noise.h"

#include <algorithm>
#include <vector>

#include "gpu_status.h"

namespace encore::gpu {
namespace {

constexpr size_t kNoiseElements = (size_t{4} << 20U) + 4104;  // in no step with rows

}  // namespace

Status fill_with_noise(std::byte* data, int64_t bytes, gpuStream_t stream) {
  std::vector<uint16_t> noise(kNoiseElements);
  uint32_t state = 1;
  for (uint16_t& value : noise) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<uint16_t>(0x3F00U | ((state >> 16U) & 0x807FU));
  }
  int64_t done = std::min(bytes, static_cast<int64_t>(noise.size() * sizeof(uint16_t)));
  ENCORE_RETURN_IF_ERROR(gpu_status(
      gpuMemcpyAsync(data, noise.data(), static_cast<size_t>(done), gpuMemcpyHostToDevice, stream),
      "copying noise"));
  for (; done < bytes; done *= 2) {
    ENCORE_RETURN_IF_ERROR(gpu_status(
        gpuMemcpyAsync(data + done, data, static_cast<size_t>(std::min(done, bytes - done)),
                       gpuMemcpyDeviceToDevice, stream),
        "filling measured memory"));
  }
  return gpu_status(gpuStreamSynchronize(stream), "filling measured memory");
}

}  // namespace encore::gpu
