// The RMS norm of a row that a block holds in registers: kPacks packs a thread, pack p in thread p
// % blockDim.x. The same bits in every kernel that uses it, however many threads it has.
#pragma once

#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {

// Sum over the block of what its threads give for the packs of a row; pack p is of thread p %
// blockDim.x. A warp's are added up first, and these sums in order: the bits do not depend on the
// number of threads. `shared` holds one value for each warp and pack of its threads.
template <int W, int kPacks>
__device__ inline float sum_in_order(float (&sums)[kPacks], int packs, float* shared) {
  const int warp = static_cast<int>(threadIdx.x) / W;
  const int warps = static_cast<int>(blockDim.x) / W;
#pragma unroll
  for (float& sum : sums) sum = warp_sum<W>(sum);
  if (threadIdx.x % W == 0) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) shared[warp + i * warps] = sums[i];
  }
  __syncthreads();
  const int parts = (packs + W - 1) / W;
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

// 1 / sqrt(mean(x^2) + eps), in all threads. `shared` as above; free again after a barrier.
template <int W, int kPacks>
__device__ inline float inverse_rms(const Pack8 (&values)[kPacks], int packs, float eps,
                                    float* shared) {
  float sums[kPacks] = {};
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    if (static_cast<int>(threadIdx.x + i * blockDim.x) >= packs) continue;
    float unpacked[8];
    unpack(values[i], unpacked);
#pragma unroll
    for (const float value : unpacked) sums[i] += value * value;
  }
  return rsqrtf(sum_in_order<W>(sums, packs, shared) / static_cast<float>(packs * 8) + eps);
}

// row = values * inverse * weights.
template <int kPacks>
__device__ inline void store_scaled(bf16* row, const Pack8 (&values)[kPacks],
                                    const Pack8 (&weights)[kPacks], float inverse, int packs) {
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int p = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (p >= packs) continue;
    float scaled[8];
    float unpacked[8];
    unpack(weights[i], scaled);
    unpack(values[i], unpacked);
#pragma unroll
    for (int j = 0; j < 8; ++j) scaled[j] *= unpacked[j] * inverse;
    store8(row + p * 8, pack_of(scaled));
  }
}

}  // namespace encore::gpu
