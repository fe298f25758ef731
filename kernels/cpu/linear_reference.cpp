// The plain C++ level: what every other level must compute.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

int16_t to_code(float value) {
  // The conversion instruction's result for a NaN, narrowed with saturation.
  if (std::isnan(value)) return -32768;
  return static_cast<int16_t>(std::nearbyint(value));
}

void quantize_group(const float* x, ActivationGroup* out) {
  uint32_t largest = 0;  // as bits, so that infinities and NaN win and reach the scale
  for (int i = 0; i < kGroup; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  }
  const float magnitude = std::bit_cast<float>(largest);
  const bool zero = magnitude < kSmallestActivation;
  const float inverse = zero ? 0.0F : kLargestCode / magnitude;
  out->scale = zero ? 0.0F : magnitude / kLargestCode;
  int32_t sums[2] = {0, 0};
  for (int i = 0; i < kGroup; ++i) {
    const int16_t code = to_code(x[i] * inverse);
    out->codes[code_index(i)] = code;
    sums[i / 16] += code;
  }
  out->scaled_sum = out->scale * static_cast<float>(sums[0] + sums[1]);
  out->negative_sum[0] = -sums[0];
  out->negative_sum[1] = -sums[1];
}

void quantize_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    auto* out = reinterpret_cast<ActivationGroup*>(task.out + row * quantised_stride(task.k));
    for (int64_t g = 0; g < task.k / kGroup; ++g) quantize_group(x + g * kGroup, out + g);
  }
}

void round_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    auto* out = reinterpret_cast<uint16_t*>(task.out + row * bf16_stride(task.k));
    for (int64_t i = 0; i < task.k; ++i) out[i] = f32_to_bf16(x[i]);
  }
}

int32_t dot_codes(const GroupColumn& weight, const ActivationGroup& x, int zero, int begin,
                  int end) {
  int32_t dot = 0;
  for (int i = begin; i < end; ++i) {
    dot += (weight.codes[i] - zero) * x.codes[code_index(i)];
  }
  return dot;
}

float accumulate_group(const PackedLayout& layout, const GroupColumn& weight,
                       const ActivationGroup& x, float acc) {
  for (int begin = 0; begin < kGroup; begin += layout.scale_group) {
    const int32_t dot = dot_codes(weight, x, layout.zero, begin, begin + layout.scale_group);
    acc = std::fma(static_cast<float>(dot), weight.scale[begin / 16] * x.scale, acc);
  }
  return layout.has_min ? std::fma(weight.min, x.scaled_sum, acc) : acc;
}

void quantised_columns(const ColumnTask& task) {
  const PackedLayout layout = layout_of(task.type);
  const int64_t bytes = panel_bytes(task.type, task.k);
  const int32_t rows = task.row_end - task.row_begin;
  constexpr int32_t kRows = 64;  // decoded weights are shared by so many rows
  for (int32_t row = task.row_begin; row < task.row_begin + rows; row += kRows) {
    const int32_t count = std::min(kRows, task.row_end - row);
    for (int64_t column = task.col_begin; column < std::min(task.col_end, task.n); ++column) {
      const std::byte* panel = task.weights + column / kPanelColumns * bytes;
      float acc[kRows] = {};
      for (int64_t g = 0; g < task.k / kGroup; ++g) {
        const GroupColumn weight = read_group(task.type, panel, task.k, g, column % kPanelColumns);
        for (int32_t r = 0; r < count; ++r) {
          const auto* x = reinterpret_cast<const ActivationGroup*>(
              task.activations + (row + r) * task.activation_stride);
          acc[r] = accumulate_group(layout, weight, x[g], acc[r]);
        }
      }
      for (int32_t r = 0; r < count; ++r) finish_row(task, row + r, column, 1, acc + r);
    }
  }
}

float float_element(WeightType type, const void* row, int64_t k) {
  if (type == WeightType::kF32) return static_cast<const float*>(row)[k];
  const uint16_t bits = static_cast<const uint16_t*>(row)[k];
  return type == WeightType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

float dot_chunk(WeightType type, const void* w, const void* x, int64_t begin, int64_t end) {
  const WeightType x_type = type == WeightType::kBF16 ? WeightType::kBF16 : WeightType::kF32;
  float lanes[16] = {};
  for (int64_t k = begin; k < end; ++k) {
    float& lane = lanes[k % 16];
    lane = std::fma(float_element(type, w, k), float_element(x_type, x, k), lane);
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

void float_columns(const ColumnTask& task) {
  const int64_t row_bytes = task.k * block_bytes(task.type);
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const std::byte* x = task.activations + row * task.activation_stride;
    for (int64_t column = task.col_begin; column < std::min(task.col_end, task.n); ++column) {
      float acc = 0.0F;
      for (int64_t k = 0; k < task.k; k += kFloatChunk) {
        acc += dot_chunk(task.type, task.weights + column * row_bytes, x, k,
                         std::min(task.k, k + kFloatChunk));
      }
      finish_row(task, row, column, 1, &acc);
    }
  }
}

}  // namespace

const LinearKernels& linear_kernels_reference() {
  static constexpr LinearKernels kKernels = {quantize_rows, round_rows, 1, quantised_columns,
                                             float_columns};
  return kKernels;
}

}  // namespace encore::kernels
