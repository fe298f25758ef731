#include "kernels/gpu/norm.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kMaxThreads = 1024;
// Up to these many rows a device holds them all at once, and a row is as fast as its block is wide.
// With more, memory is the limit: narrow blocks, many on a multiprocessor, each with several loads
// under way.
constexpr int kFewRows = 512;
constexpr int kManyRowsPacks = 4;  // of a thread
constexpr int kManyRowsThreads = 512;

// Sum over the block of what its threads give for the packs of a row; pack p is of thread p %
// blockDim.x. A warp's are added up first, and these sums in order: the bits do not depend on the
// number of threads. `shared` holds one value for each warp and pack of its threads.
template <int kPacks>
__device__ inline float sum_in_order(float (&sums)[kPacks], int packs, float* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
#pragma unroll
  for (float& sum : sums) sum = warp_sum(sum);
  if (threadIdx.x % kWarpSize == 0) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) shared[warp + i * warps] = sums[i];
  }
  __syncthreads();
  const int parts = (packs + kWarpSize - 1) / kWarpSize;
  float total = shared[0];
  for (int i = 1; i < parts; ++i) total += shared[i];
  return total;
}

// This thread's packs of a row.
template <int kPacks>
__device__ inline void load_packs(Pack8 (&values)[kPacks], const bf16* row, int packs) {
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p < packs) values[i] = load8(row + p * 8);
  }
}

// One block a row, which it holds in registers: kPacks packs a thread.
template <int kPacks, int kThreads>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(RmsNormArgs args) {
  __shared__ float partial[kPacks * kThreads / kWarpSize];
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int packs = args.hidden_size / 8;
  const auto* weight = static_cast<const bf16*>(args.weight);
  const auto* x = static_cast<const bf16*>(args.x) + row * args.x_stride;
  auto* y = static_cast<bf16*>(args.y) + row * args.y_stride;

  // Where rows are few, what can be is read before anything is waited for: constant data, and the
  // row while the count is under way. Where they are many, registers and bandwidth count instead.
  constexpr bool kFew = kPacks < kManyRowsPacks;
  Pack8 weights[kPacks] = {};
  if (kFew) load_packs(weights, weight, packs);
  wait_for_previous_kernel();
  const int32_t live = *args.rows.live;
  if (!kFew && row >= live) return;
  Pack8 values[kPacks] = {};
  load_packs(values, x, packs);
  release_next_kernel();
  if (row >= live) return;
  float sums[kPacks] = {};
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    if (thread + i * threads >= packs) continue;
    float unpacked[8];
    unpack(values[i], unpacked);
#pragma unroll
    for (const float value : unpacked) sums[i] += value * value;
  }
  const float inverse =
      rsqrtf(sum_in_order(sums, packs, partial) / static_cast<float>(args.hidden_size) + args.eps);
  if (!kFew) load_packs(weights, weight, packs);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = thread + i * threads;
    if (p >= packs) continue;
    float scaled[8];
    float unpacked[8];
    unpack(weights[i], scaled);
    unpack(values[i], unpacked);
#pragma unroll
    for (int j = 0; j < 8; ++j) scaled[j] *= unpacked[j] * inverse;
    store8(y + p * 8, pack_of(scaled));
  }
}

template <int kPacks, int kThreads>
LaunchError launch_norm(const RmsNormArgs& args, const Launch& launch) {
  const int32_t needed = (args.hidden_size / 8 + kPacks - 1) / kPacks;
  const int32_t threads = (needed + kWarpSize - 1) / kWarpSize * kWarpSize;
  return launch_kernel(rms_norm_kernel<kPacks, kThreads>, args.rows.maximum, threads, 0, launch,
                       args);
}

}  // namespace

LaunchError rms_norm(const RmsNormArgs& args, const Launch& launch) {
  const int32_t packs = args.hidden_size / 8;
  if (args.hidden_size <= 0 || args.hidden_size % 8 != 0 || packs > 2 * kMaxThreads ||
      args.x_stride % 8 != 0 || args.y_stride % 8 != 0) {
    return gpuErrorInvalidValue;
  }
  if (args.rows.maximum <= 0) return gpuSuccess;
  if (args.rows.maximum > kFewRows)
    return launch_norm<kManyRowsPacks, kManyRowsThreads>(args, launch);
  if (packs > kMaxThreads) return launch_norm<2, kMaxThreads>(args, launch);
  return launch_norm<1, kMaxThreads>(args, launch);
}

}  // namespace encore::gpu
