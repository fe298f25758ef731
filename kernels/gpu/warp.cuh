// Lanes of a warp (a wavefront on AMD) working together. The width W is a parameter: 32 on NVIDIA
// and RDNA, 64 on CDNA.
#pragma once

#include "vendor.h"

namespace encore::gpu {

#if defined(ENCORE_GPU_HIP)
#if defined(__AMDGCN_WAVEFRONT_SIZE)
inline constexpr int kWarpSize = __AMDGCN_WAVEFRONT_SIZE;
#else
inline constexpr int kWarpSize = 64;
#endif
template <typename T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor(value, mask, kWarpSize);
}
template <typename T>
__device__ inline T shuffle(T value, int lane) {
  return __shfl(value, lane, kWarpSize);
}
template <typename T>
__device__ inline T shuffle_up(T value, int delta) {
  return __shfl_up(value, delta, kWarpSize);
}
using LaneMask = uint64_t;
__device__ inline LaneMask ballot(bool predicate) { return __ballot(predicate); }
__device__ inline int count_lanes(LaneMask mask) { return __popcll(mask); }
__device__ inline int first_lane(LaneMask mask) { return __ffsll(mask) - 1; }
#else
inline constexpr int kWarpSize = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffU;
template <typename T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
template <typename T>
__device__ inline T shuffle(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <typename T>
__device__ inline T shuffle_up(T value, int delta) {
  return __shfl_up_sync(kAllLanes, value, delta);
}
using LaneMask = uint32_t;
__device__ inline LaneMask ballot(bool predicate) { return __ballot_sync(kAllLanes, predicate); }
__device__ inline int count_lanes(LaneMask mask) { return __popc(mask); }
__device__ inline int first_lane(LaneMask mask) { return __ffs(mask) - 1; }  // -1: none
#endif

// All lanes get the sum (or maximum) over the warp, always in the same order.
template <typename T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2)
    value = fmaxf(value, shuffle_xor(value, mask));
  return value;
}
__device__ inline uint64_t warp_max(uint64_t value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// All threads of a block of up to 1024 get the sum. `shared` holds one value a warp.
template <typename T>
__device__ inline T block_sum(T value, T* shared) {
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int num_warps = (blockDim.x + kWarpSize - 1) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  T total = shared[0];
  for (int i = 1; i < num_warps; ++i) total += shared[i];
  __syncthreads();
  return total;
}

}  // namespace encore::gpu
