// What benchmarks of matrix products share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "encore/status.h"
#include "graph_timer.h"
#include "vendor.h"

namespace encore::bench {

// Ends the program if a call failed.
using gpu::check;
inline void check(const Status& status) {
  if (status.ok()) return;
  std::printf("%s\n", status.to_string().c_str());
  std::exit(1);
}

// Uniform in +-range. Zeros would draw less power and run faster than real values.
inline __global__ void fill_values(gpu::bf16* p, size_t count, float range) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += stride) {
    const auto hash = static_cast<uint32_t>((i * 0x9e3779b97f4a7c15ULL) >> 32) * 0x85ebca6bU;
    p[i] = __float2bfloat16((static_cast<float>(hash) / 2147483648.0F - 1.0F) * range);
  }
}

// Device memory, never freed.
inline gpu::bf16* make_values(size_t count, float range) {
  void* p = nullptr;
  check(gpuMalloc(&p, 2 * count), "allocation");
  fill_values<<<1024, 256>>>(static_cast<gpu::bf16*>(p), count, range);
  check(gpuDeviceSynchronize(), "fill");
  return static_cast<gpu::bf16*>(p);
}

inline double graph_us(gpuStream_t stream, int rounds, const std::function<void()>& enqueue) {
  enqueue();  // loads kernels
  return 1000.0 * gpu::time_graph(stream, enqueue, rounds);
}

}  // namespace encore::bench
