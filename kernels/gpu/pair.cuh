// Two 16-bit elements in a word, the lower half first in memory, as matrix instructions take them.
#pragma once

#include <bit>
#include <cstdint>

#include "vendor.h"

namespace encore::gpu {

// Two values rounded to nearest, `low` in the lower half.
template <typename T>
__device__ inline uint32_t pack_pair(float low, float high);
// The f32 values of a word's halves.
template <typename T>
__device__ inline float low_of(uint32_t pair);
template <typename T>
__device__ inline float high_of(uint32_t pair);

template <>
__device__ inline uint32_t pack_pair<bf16>(float low, float high) {
#if defined(ENCORE_GPU_CUDA)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return std::bit_cast<uint32_t>(to_bf16x2(low, high));
#endif
}
template <>
__device__ inline uint32_t pack_pair<f16>(float low, float high) {
#if defined(ENCORE_GPU_CUDA)
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#elif defined(ENCORE_GPU_HIP)
  using Pair = _Float16 __attribute__((ext_vector_type(2)));
  return __builtin_bit_cast(uint32_t,
                            Pair{static_cast<_Float16>(low), static_cast<_Float16>(high)});
#else
  return __float2half_rn(low).bits | static_cast<uint32_t>(__float2half_rn(high).bits) << 16;
#endif
}

template <>
__device__ inline float low_of<bf16>(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
template <>
__device__ inline float high_of<bf16>(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000U);
}
template <>
__device__ inline float low_of<f16>(uint32_t pair) {
  return to_float(__builtin_bit_cast(f16, static_cast<uint16_t>(pair)));
}
template <>
__device__ inline float high_of<f16>(uint32_t pair) {
  return low_of<f16>(pair >> 16);
}

// The words made of the lower, and of the upper, halves of two.
__device__ inline uint32_t lower_halves(uint32_t first, uint32_t second) {
#if defined(ENCORE_GPU_CUDA)
  return __byte_perm(first, second, 0x5410);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_perm(second, first, 0x05040100);
#else
  return (first & 0xffffU) | second << 16;
#endif
}
__device__ inline uint32_t upper_halves(uint32_t first, uint32_t second) {
#if defined(ENCORE_GPU_CUDA)
  return __byte_perm(first, second, 0x7632);
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_perm(second, first, 0x07060302);
#else
  return first >> 16 | (second & 0xffff0000U);
#endif
}

// 2^x to about 2 units in the last place; 0 for very negative x. One instruction.
__device__ inline float exp2_fast(float x) {
#if defined(ENCORE_GPU_CUDA)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#elif defined(__HIP_DEVICE_COMPILE__) && __has_builtin(__builtin_amdgcn_exp2f)
  return __builtin_amdgcn_exp2f(x);
#elif defined(ENCORE_GPU_HIP)
  return __builtin_exp2f(x);
#else
  return exp2f(x);
#endif
}

}  // namespace encore::gpu
