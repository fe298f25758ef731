// bf16 and f16 in GPU code, and their conversions. vendor.h includes this: include that.
//
// NVIDIA: CUDA's types. AMD and the CPU: types of our own for bf16, since HIP has one from 5.6 on
// only. Both give them the same names, so that a kernel has one mangled name in both.
#pragma once

#include <bit>
#include <cstdint>

namespace encore::gpu {

#if defined(ENCORE_GPU_CUDA)
using bf16 = __nv_bfloat16;
using bf16x2 = __nv_bfloat162;
#else
struct Bf16 {
  uint16_t bits;  // the high half of an f32's
};
struct alignas(4) Bf16x2 {
  Bf16 x, y;
};
using bf16 = Bf16;
using bf16x2 = Bf16x2;
#endif

// To bf16: nearest even; NaN becomes the NaN 0x7fff. To f32: exact.
#if defined(ENCORE_GPU_CUDA)
__host__ __device__ inline bf16 to_bf16(float value) { return __float2bfloat16_rn(value); }
__host__ __device__ inline bf16x2 to_bf16x2(float x, float y) {
  return __floats2bfloat162_rn(x, y);
}
__host__ __device__ inline float to_float(bf16 value) { return __bfloat162float(value); }
#else
__host__ __device__ inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return {static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : rounded)};
}
__host__ __device__ inline bf16x2 to_bf16x2(float x, float y) { return {to_bf16(x), to_bf16(y)}; }
__host__ __device__ inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
#endif

// Without HIP's compiler, HIP has no f16.
#if !defined(ENCORE_GPU_HIP) || defined(__HIP__)
using f16 = __half;
using f16x2 = __half2;
__device__ inline float to_float(f16 value) { return __half2float(value); }
#endif
__host__ __device__ inline float to_float(float value) { return value; }

}  // namespace encore::gpu
