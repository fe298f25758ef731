// RMS norm over a Vector. Include after its header.
#pragma once

#include <cmath>

#include "norm_levels.h"

namespace encore::kernels {
namespace {

// Sum of squares of x (+ residual, which then takes the sum), in four running vectors.
template <bool kResidual>
float sum_of_squares(const float* x, float* residual, int32_t columns) {
  using V = Vector;
  V::F sums[4] = {V::zero(), V::zero(), V::zero(), V::zero()};
  const auto visit = [&](int32_t i, V::F value, V::F* sum) {
    if constexpr (kResidual) {
      value = V::add(V::load(residual + i), value);
      V::store(residual + i, value);
    }
    *sum = V::fma(value, value, *sum);
  };
  int32_t i = 0;
  for (; i + 4 * V::kLanes <= columns; i += 4 * V::kLanes) {
    for (int32_t j = 0; j < 4; ++j)
      visit(i + j * V::kLanes, V::load(x + i + j * V::kLanes), &sums[j]);
  }
  for (; i + V::kLanes <= columns; i += V::kLanes) visit(i, V::load(x + i), &sums[0]);
  if (i < columns) {
    const int32_t rest = columns - i;
    V::F value = V::load_first(x + i, rest);
    if constexpr (kResidual) {
      value = V::add(V::load_first(residual + i, rest), value);
      V::store_first(residual + i, rest, value);
    }
    sums[1] = V::fma(value, value, sums[1]);
  }
  return V::sum(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3])));
}

inline void scale_row(const float* x, const float* weight, float inverse, int32_t columns,
                      float* y) {
  using V = Vector;
  const V::F factor = V::set(inverse);
  int32_t i = 0;
  for (; i + V::kLanes <= columns; i += V::kLanes) {
    V::store(y + i, V::mul(V::mul(V::load(x + i), factor), V::load(weight + i)));
  }
  if (i == columns) return;
  const int32_t rest = columns - i;
  V::store_first(
      y + i, rest,
      V::mul(V::mul(V::load_first(x + i, rest), factor), V::load_first(weight + i, rest)));
}

inline void rms_norm_simd(const RmsNormArgs& args, const Worker& worker) {
  const int32_t columns = args.hidden_size;
  for (int32_t row = worker.index; row < *args.num_rows; row += worker.count) {
    const float* x = args.x + row * args.x_stride;
    float squares;
    if (args.residual != nullptr) {
      float* residual = args.residual + row * args.residual_stride;
      squares = sum_of_squares<true>(x, residual, columns);
      x = residual;
    } else {
      squares = sum_of_squares<false>(x, nullptr, columns);
    }
    const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(columns) + args.eps);
    scale_row(x, args.weight, inverse, columns, args.y + row * args.y_stride);
  }
}

}  // namespace
}  // namespace encore::kernels
