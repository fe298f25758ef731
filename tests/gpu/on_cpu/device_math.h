// Device functions of one thread: bits and arithmetic. The fast ones are exact here.
#pragma once

#include <math.h>  // NOLINT: puts expf and its kind at file scope, where kernels expect them

#include <algorithm>
#include <bit>
#include <cstdint>

using std::max;
using std::min;

inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline int32_t __float_as_int(float value) { return std::bit_cast<int32_t>(value); }
inline float __uint_as_float(uint32_t value) { return std::bit_cast<float>(value); }
inline float __int_as_float(int32_t value) { return std::bit_cast<float>(value); }
inline int64_t __double_as_longlong(double value) { return std::bit_cast<int64_t>(value); }
inline double __longlong_as_double(int64_t value) { return std::bit_cast<double>(value); }

inline int __popc(uint32_t value) { return std::popcount(value); }
inline int __clz(uint32_t value) { return std::countl_zero(value); }
inline int __ffs(uint32_t value) { return value == 0 ? 0 : std::countr_zero(value) + 1; }
inline int __popcll(uint64_t value) { return std::popcount(value); }
inline int __clzll(uint64_t value) { return std::countl_zero(value); }
inline int __ffsll(uint64_t value) { return value == 0 ? 0 : std::countr_zero(value) + 1; }
inline uint32_t __brev(uint32_t value) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) result |= (value >> i & 1U) << (31 - i);
  return result;
}

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float rsqrtf(float x) { return 1.0F / sqrtf(x); }
inline void sincospi(double x, double* sine, double* cosine) {
  const double rest = x - 2.0 * rint(x / 2.0);  // exact
  *sine = sin(rest * M_PI);
  *cosine = cos(rest * M_PI);
}
inline float __saturatef(float x) { return x >= 0.0F ? std::min(x, 1.0F) : 0.0F; }
