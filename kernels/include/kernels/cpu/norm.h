// RMS norm, with or without the residual added first.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

// y = x * rsqrt(mean(x^2) + eps) * weight, row by row. If `residual` is not null, first
// residual += x, and the norm is of the new residual.
struct RmsNormArgs {
  const int32_t* num_rows;  // [1] live rows, read at call time; rows from there on are not touched
  const float* x;           // [rows, hidden_size]
  int64_t x_stride;         // elements from row to row
  float* residual;          // [rows, hidden_size] or null
  int64_t residual_stride;
  const float* weight;  // [hidden_size]
  float* y;             // [rows, hidden_size]; may be x
  int64_t y_stride;
  int32_t hidden_size;
  float eps;
};

// Splits by rows, so x may be y. Needs no scratch; does not synchronise at its end.
// A row's bits depend on that row alone.
using RmsNormKernel = void (*)(const RmsNormArgs&, const Worker&);

// The best kernel at or below `level`.
RmsNormKernel rms_norm_kernel(IsaLevel level);

}  // namespace encore::kernels
