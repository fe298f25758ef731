// Quantised weights with AMX-INT8: tiles multiply, AVX-512 scales, so that the bits are those of
// the AVX-512 level, which also serves calls of few rows.
#include "linear_amx.h"

#include "linear_epilogue.h"
#include "linear_panels_avx512.h"

namespace encore::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int32_t kFewRows = 8;  // up to so many, a tile would be mostly empty

// Tiles: 0 sums, 1 activations, 2 weights.
TileConfig int8_config(int quads) {
  TileConfig config;
  config.set(0, kTileRows, 64);
  config.set(1, kTileRows, 4 * quads);
  config.set(2, quads, 64);
  return config;
}

// Integer dot products of kCount quads from kFirst on of group g: dots[row][output].
template <typename Format, int kFirst, int kCount>
inline void multiply_group(const uint8_t* codes, const std::byte* x, int64_t x_stride,
                           int32_t (&dots)[kTileRows][kPanelColumns]) {
  alignas(64) uint8_t unpacked[kCount][64];
  const uint8_t* weights = codes + 64 * kFirst;
  if constexpr (Format::kLayout.code_bits != 8) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      _mm512_store_si512(unpacked[i], Format::codes(codes, kFirst + i));
    }
    weights = unpacked[0];
  }
  before_tile_load();
  _tile_zero(0);
  _tile_loadd(1, x + 4 * kFirst, x_stride);
  _tile_loadd(2, weights, 64);
  _tile_dpbsud(0, 1, 2);
  _tile_stored(0, dots, 64);
}

// Adds one group's scaled dot products to the sums of `rows` rows.
template <typename Format, int kFirst, int kCount, bool kMin>
inline void scale_group(const PanelScales& scales, const std::byte* x, int64_t x_stride, int rows,
                        const int32_t (&dots)[kTileRows][kPanelColumns], __m512 (&sum)[kTileRows]) {
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    if (r == rows) break;
    const auto& group = *reinterpret_cast<const ActivationGroup*>(x + r * x_stride);
    __m512i dot = _mm512_load_si512(dots[r]);
    if constexpr (Format::kZeroShift > 0) {
      const int32_t negative = kCount == 8 ? group.negative_sum[0] + group.negative_sum[1]
                                           : group.negative_sum[kFirst / 4];
      dot = _mm512_add_epi32(dot, _mm512_set1_epi32(negative * (1 << Format::kZeroShift)));
    }
    const __m512 scale = _mm512_mul_ps(scales.scale[kFirst / 4], _mm512_set1_ps(group.scale));
    sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sum[r]);
    if constexpr (kMin) {
      sum[r] = _mm512_fmadd_ps(scales.min, _mm512_set1_ps(group.scaled_sum), sum[r]);
    }
  }
}

// Rows [row, row + rows) of one panel, rows <= 16. Up to 16 rows are read: the workspace has them.
template <typename Format>
void store_tile(const ColumnTask& task, int64_t row, int rows, int64_t column) {
  const auto* panel = reinterpret_cast<const uint8_t*>(task.weights) +
                      column / kPanelColumns * panel_bytes(task.type, task.k);
  const int64_t groups = task.k / kGroup;
  const uint8_t* scale_base = panel + groups * Format::kCodeBytes;
  const std::byte* x = task.activations + row * task.activation_stride;
  const int64_t stride = task.activation_stride;
  alignas(64) int32_t dots[2][kTileRows][kPanelColumns];
  __m512 sum[kTileRows];
  for (__m512& s : sum) s = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g, x += sizeof(ActivationGroup)) {
    const uint8_t* codes = panel + g * Format::kCodeBytes;
    const PanelScales scales = Format::scales(scale_base, g);
    if constexpr (Format::kHalves) {
      multiply_group<Format, 0, 4>(codes, x, stride, dots[0]);
      multiply_group<Format, 4, 4>(codes, x, stride, dots[1]);
      // Codes lie at the start of a group, scales behind them: x points to the group itself.
      scale_group<Format, 0, 4, false>(scales, x, stride, rows, dots[0], sum);
      scale_group<Format, 4, 4, Format::kMin>(scales, x, stride, rows, dots[1], sum);
    } else {
      multiply_group<Format, 0, 8>(codes, x, stride, dots[g % 2]);
      scale_group<Format, 0, 8, Format::kMin>(scales, x, stride, rows, dots[g % 2], sum);
    }
  }
  for (int r = 0; r < rows; ++r) {
    alignas(64) float sums[kPanelColumns];
    _mm512_store_ps(sums, sum[r]);
    finish_row(task, row + r, column, smaller(kPanelColumns, task.n - column), sums);
  }
}

template <typename Format>
void run_columns(const ColumnTask& task) {
  const TileConfig config = int8_config(Format::kHalves ? 4 : 8);
  const TileSession session(config);
  for (int64_t column = task.col_begin; column < task.col_end; column += kPanelColumns) {
    for (int64_t row = task.row_begin; row < task.row_end; row += kTileRows) {
      const auto rows = static_cast<int>(smaller(kTileRows, task.row_end - row));
      store_tile<Format>(task, row, rows, column);
    }
  }
}

void quantised_columns(const ColumnTask& task) {
  if (task.row_end - task.row_begin <= kFewRows) return quantised_columns_avx512(task);
  switch (task.type) {
    case WeightType::kQ8_0:
      return run_columns<PanelQ8>(task);
    case WeightType::kQ4_0:
      return run_columns<PanelQ4>(task);
    case WeightType::kQ4_1:
      return run_columns<PanelQ41>(task);
    case WeightType::kQ4_K:
      return run_columns<PanelQ4K>(task);
    case WeightType::kQ5_K:
      return run_columns<PanelQ5K>(task);
    case WeightType::kQ6_K:
      return run_columns<PanelQ6K>(task);
    default:
      return;
  }
}

void float_columns(const ColumnTask& task) {
  if (task.type == WeightType::kBF16) return bf16_columns_amx(task);
  float_columns_avx512(task);
}

}  // namespace

const LinearKernels& linear_kernels_amx() {
  static const LinearKernels kernels = {linear_kernels_avx512().quantize_rows, round_rows_amx, 16,
                                        quantised_columns, float_columns};
  return kernels;
}

}  // namespace encore::kernels
