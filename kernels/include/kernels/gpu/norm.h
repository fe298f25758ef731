// RMS norm.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

inline constexpr int32_t kRmsNormMaxColumns = 16384;

// y = x / sqrt(mean(x^2) + eps) * weight, row by row, in f32. A row's bits depend on it alone.
struct RmsNormArgs {
  LiveRows rows;
  const void* x = nullptr;       // [rows, hidden_size] bf16; all rows up to the maximum may be read
  int64_t x_stride = 0;          // elements; strides are multiples of 8
  const void* weight = nullptr;  // [hidden_size] bf16
  void* y = nullptr;             // [rows, hidden_size] bf16; may be x
  int64_t y_stride = 0;
  int32_t hidden_size = 0;  // a multiple of 8, at most kRmsNormMaxColumns
  float eps = 0.0F;
};

LaunchError rms_norm(const RmsNormArgs& args, const Launch& launch);

}  // namespace encore::gpu
