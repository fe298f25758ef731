#include "launch.cuh"
#include "test_kernels.h"
#include "warp.cuh"

namespace encore::standin::testing {
namespace {

using gpu::Launch;
using gpu::launch_kernel;
using gpu::LaunchError;

__global__ void scale_kernel(const int32_t* in, int32_t count, Scale how, int64_t* out) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = int64_t{in[i]} * how.factor + how.offset;
}

template <int W>
__global__ void lanes_kernel(int32_t* out) {
  if (!gpu::has_lanes<W>()) return gpu::refuse_launch<W>();
  const auto all = gpu::ballot<W>(true);
  if (threadIdx.x == 0) *out = gpu::count_lanes(all);
}

__global__ void poke_kernel(int32_t* data, int64_t at, int32_t value) { data[at] = value; }

__global__ void idle_kernel() {}

#if !defined(ENCORE_GPU_ON_CPU)
__global__ void unknown_kernel() {}
#endif

}  // namespace

LaunchError scale(const int32_t* in, int32_t count, Scale how, int64_t* out, const Launch& launch) {
  constexpr int kThreads = 64;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  return launch_kernel(scale_kernel, blocks, kThreads, 0, launch, in, count, how, out);
}

LaunchError count_lanes(int32_t* out, const Launch& launch) {
  if (launch.lanes == 64) return launch_kernel(lanes_kernel<64>, 1, 128, 0, launch, out);
  return launch_kernel(lanes_kernel<32>, 1, 128, 0, launch, out);
}

LaunchError poke(int32_t* data, int64_t at, int32_t value, const Launch& launch) {
  return launch_kernel(poke_kernel, 1, 1, 0, launch, data, at, value);
}

LaunchError idle(int32_t threads, int64_t shared_bytes, const Launch& launch) {
  return launch_kernel(idle_kernel, 1, static_cast<unsigned>(threads),
                       static_cast<size_t>(shared_bytes), launch);
}

LaunchError unknown([[maybe_unused]] const Launch& launch) {
#if defined(ENCORE_GPU_ON_CPU)
  return 0;
#else
  return launch_kernel(unknown_kernel, 1, 1, 0, launch);
#endif
}

}  // namespace encore::standin::testing
