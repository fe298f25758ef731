// The last step of every product, compiled once in each level's own file (hence the anonymous
// namespace) and vectorised by the compiler. Only fma, +, *, / and exact conversions: the bits do
// not depend on the level or on the vector width.
#pragma once

#include <cstdint>

#include "linear_internal.h"

namespace encore::kernels {
namespace {

// Not std::min: its template could be emitted here and used by code for other processors.
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// exp(x) to about 1 ulp, for x clamped to where the result is a normal number.
inline float exp_lane(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = __builtin_fmaf(x, 1.44269504F, kRound);
  const float n = shifted - kRound;
  float r = __builtin_fmaf(n, -0.693145752F, x);  // ln 2 in two pieces
  r = __builtin_fmaf(n, -1.42860677e-6F, r);
  // Taylor coefficients; |r| <= ln 2 / 2, so the first term left out is under 6e-9.
  float p = 1.0F / 5040.0F;
  p = __builtin_fmaf(p, r, 1.0F / 720.0F);
  p = __builtin_fmaf(p, r, 1.0F / 120.0F);
  p = __builtin_fmaf(p, r, 1.0F / 24.0F);
  p = __builtin_fmaf(p, r, 1.0F / 6.0F);
  p = __builtin_fmaf(p, r, 0.5F);
  p = __builtin_fmaf(p, r, 1.0F);
  p = __builtin_fmaf(p, r, 1.0F);
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) << 23;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p) + exponent);
}

inline void store_row(const float* __restrict acc, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = acc[i];
}

inline void add_row(const float* __restrict acc, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] += acc[i];
}

inline void silu_gate_row(const float* __restrict acc, float* __restrict y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float gate = y[i];
    y[i] = gate / (1.0F + exp_lane(-gate)) * acc[i];
  }
}

// Applies bias and epilogue to one row's finished sums of columns [column, column + count).
// `acc` is overwritten.
inline void finish_row(const ColumnTask& task, int64_t row, int64_t column, int64_t count,
                       float* acc) {
  if (task.bias != nullptr) add_row(task.bias + column, acc, count);
  float* y = task.y + row * task.y_stride + column;
  switch (task.epilogue) {
    case TileEpilogue::kStore:
      return store_row(acc, y, count);
    case TileEpilogue::kAdd:
      return add_row(acc, y, count);
    case TileEpilogue::kSiluGate:
      return silu_gate_row(acc, y, count);
  }
}

}  // namespace
}  // namespace encore::kernels
