// Lanes of a warp (a wavefront on AMD) working together. The width W is a parameter: 32 on NVIDIA
// and RDNA, 64 on CDNA.
//
// All lanes of the warp call these functions together.
#pragma once

#include <type_traits>

#include "vendor.h"

namespace encore::gpu {

// Whether this code is compiled for warps of W lanes; on the CPU, whether the launch has them. A
// kernel that uses lanes begins with
//   if (!has_lanes<W>()) return refuse_launch<W>();
// so that where an architecture has one width only, the kernel of the other, which exists for the
// host's code, does nothing but fail.
template <int W>
__device__ constexpr bool has_lanes() {
  static_assert(W == 32 || W == 64);
#if defined(ENCORE_GPU_ON_CPU)
  return on_cpu::num_lanes() == W;
#elif defined(ENCORE_GPU_CUDA)
  return W == 32;
#elif defined(__GFX9__)                // CDNA
  return W == 64;
#elif defined(__HIP_DEVICE_COMPILE__)  // RDNA
  return W == 32;
#else
  return true;  // HIP's pass for the host
#endif
}

// Ends a kernel that was made for another device than it runs on, so that the launch fails: the
// device's stream reports an error, the CPU aborts with a message.
template <int W>
__device__ inline void refuse_launch() {
#if defined(ENCORE_GPU_ON_CPU)
  on_cpu::refuse_launch(W);
#elif defined(ENCORE_GPU_CUDA)
  __trap();
#else
  __builtin_trap();
#endif
}

// The value of lane `lane ^ mask`.
template <int W, typename T>
__device__ inline T shuffle_xor(T value, int mask) {
#if defined(ENCORE_GPU_CUDA)
  return __shfl_xor_sync(0xffffffffU, value, mask);
#else
  return __shfl_xor(value, mask, W);
#endif
}

// The value of this lane.
template <int W, typename T>
__device__ inline T shuffle(T value, int lane) {
#if defined(ENCORE_GPU_CUDA)
  return __shfl_sync(0xffffffffU, value, lane);
#else
  return __shfl(value, lane, W);
#endif
}

// The value of lane `lane - delta`; its own, if there is none.
template <int W, typename T>
__device__ inline T shuffle_up(T value, int delta) {
#if defined(ENCORE_GPU_CUDA)
  return __shfl_up_sync(0xffffffffU, value, delta);
#else
  return __shfl_up(value, delta, W);
#endif
}

// Bit i is of lane i.
template <int W>
using LaneMask = std::conditional_t<W == 32, uint32_t, uint64_t>;

// The lanes whose predicate holds.
template <int W>
__device__ inline LaneMask<W> ballot(bool predicate) {
#if defined(ENCORE_GPU_CUDA)
  return __ballot_sync(0xffffffffU, predicate);
#else
  return static_cast<LaneMask<W> >(__ballot(predicate));
#endif
}
__device__ inline int count_lanes(uint32_t mask) { return __popc(mask); }
__device__ inline int count_lanes(uint64_t mask) { return __popcll(mask); }
// -1: none.
__device__ inline int first_lane(uint32_t mask) { return __ffs(static_cast<int>(mask)) - 1; }
__device__ inline int first_lane(uint64_t mask) {
  return __ffsll(static_cast<long long>(mask)) - 1;
}

// All lanes get the sum (or maximum) over the warp, always in the same order.
template <int W, typename T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int mask = W / 2; mask > 0; mask /= 2) value += shuffle_xor<W>(value, mask);
  return value;
}
template <int W>
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int mask = W / 2; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor<W>(value, mask));
  return value;
}
template <int W>
__device__ inline uint64_t warp_max(uint64_t value) {
#pragma unroll
  for (int mask = W / 2; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor<W>(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// All threads of a block of up to 1024 get the sum. `shared` holds one value a warp.
template <int W, typename T>
__device__ inline T block_sum(T value, T* shared) {
  const int warp = static_cast<int>(threadIdx.x) / W;
  const int lane = static_cast<int>(threadIdx.x) % W;
  const int num_warps = (static_cast<int>(blockDim.x) + W - 1) / W;
  value = warp_sum<W>(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  T total = shared[0];
  for (int i = 1; i < num_warps; ++i) total += shared[i];
  __syncthreads();
  return total;
}

}  // namespace encore::gpu
