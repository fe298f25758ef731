#include "kernels/gpu/norm.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kMaxThreads = 1024;

// One block a row, which it holds in registers: kPacks packs a thread.
template <int kPacks>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(RmsNormArgs args) {
  __shared__ float partial[kMaxThreads / kWarpSize];
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int packs = args.hidden_size / 8;
  const auto* weight = static_cast<const bf16*>(args.weight);
  const auto* x = static_cast<const bf16*>(args.x) + row * args.x_stride;
  auto* y = static_cast<bf16*>(args.y) + row * args.y_stride;

  Pack8 weights[kPacks];  // constant data: need not wait
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = thread + i * threads;
    if (p < packs) weights[i] = load8(weight + p * 8);
  }
  wait_for_previous_kernel();
  if (row >= *args.rows.live) return;

  float values[kPacks][8];
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = thread + i * threads;
    if (p >= packs) continue;
    unpack(load8(x + p * 8), values[i]);
#pragma unroll
    for (const float value : values[i]) sum += value * value;
  }
  release_next_kernel();
  const float inverse =
      rsqrtf(block_sum(sum, partial) / static_cast<float>(args.hidden_size) + args.eps);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = thread + i * threads;
    if (p >= packs) continue;
    float scaled[8];
    unpack(weights[i], scaled);
#pragma unroll
    for (int j = 0; j < 8; ++j) scaled[j] *= values[i][j] * inverse;
    store8(y + p * 8, pack_of(scaled));
  }
}

}  // namespace

LaunchError rms_norm(const RmsNormArgs& args, const Launch& launch) {
  const int32_t packs = args.hidden_size / 8;
  if (args.hidden_size <= 0 || args.hidden_size % 8 != 0 || packs > 2 * kMaxThreads ||
      args.x_stride % 8 != 0 || args.y_stride % 8 != 0) {
    return gpuErrorInvalidValue;
  }
  if (args.rows.maximum <= 0) return gpuSuccess;
  const bool two = packs > kMaxThreads;
  const int32_t needed = two ? (packs + 1) / 2 : packs;
  const int32_t threads = (needed + kWarpSize - 1) / kWarpSize * kWarpSize;
  return launch_kernel(two ? rms_norm_kernel<2> : rms_norm_kernel<1>, args.rows.maximum, threads, 0,
                       launch, args);
}

}  // namespace encore::gpu
