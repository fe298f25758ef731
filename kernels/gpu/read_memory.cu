#include "kernels/gpu/read_memory.h"
#include "launch.cuh"

namespace encore::gpu {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksAProcessor = 4;
constexpr int kInFlight = 8;  // 16-byte loads a thread issues before it uses the first

struct alignas(16) Words {
  uint32_t values[4];
};

__global__ void __launch_bounds__(kThreads)
    read_kernel(const Words* data, int64_t count, uint32_t* sink) {
  wait_for_previous_kernel();
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  uint32_t sum = 1;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kInFlight - 1) * stride < count; i += kInFlight * stride) {
    Words words[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) words[j] = data[i + j * stride];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      sum += words[j].values[0] ^ words[j].values[1] ^ words[j].values[2] ^ words[j].values[3];
    }
  }
  for (; i < count; i += stride) sum += data[i].values[0];
  if (sum == 0) *sink = sum;
}

}  // namespace

LaunchError read_memory(const void* data, int64_t bytes, int32_t num_processors, uint32_t* sink,
                        const Launch& launch) {
  return launch_kernel(read_kernel, dim3(num_processors * kBlocksAProcessor), dim3(kThreads), 0,
                       launch, static_cast<const Words*>(data), bytes / 16, sink);
}

}  // namespace encore::gpu
