// What the driver (linear.cpp) asks of each instruction-set level. Internal to kernels/cpu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/linear.h"
#include "quant_layout.h"

namespace encore::kernels {

// 32 consecutive inputs of one row of x, quantised. Of each four inputs ("quad"), 0 and 2 come
// first, then 1 and 3: a 32-bit lane of packed weights holds a quad's four bytes, and the even and
// the odd bytes are each one operand of an instruction that multiplies pairs of int16.
struct ActivationGroup {
  int16_t codes[kGroup];
  float scale;
  float scaled_sum;         // scale * sum of codes
  int32_t negative_sum[2];  // minus the sum of the codes of inputs 0..15, of inputs 16..31
};
static_assert(sizeof(ActivationGroup) == 80);

// Where in a group's codes input `input` is.
static constexpr int code_index(int input) {
  return (input & ~3) | (input & 1) << 1 | (input & 2) >> 1;
}

inline constexpr float kSmallestActivation = 1e-30F;
inline constexpr float kLargestCode = 32767.0F;

// Float kernels: inputs of a chunk, and columns that one thread takes together.
inline constexpr int64_t kFloatChunk = 1024;
inline constexpr int64_t kFloatColumns = 4;

enum class TileEpilogue : int32_t {
  kStore,
  kAdd,
  kSiluGate,  // y holds the gate: y = silu(y) * v
};

// Columns [col_begin, col_end) of one part, rows [row_begin, row_end).
struct ColumnTask {
  WeightType type;
  const std::byte* weights;
  const float* bias;  // null or [n]
  int64_t n;
  int64_t k;
  int64_t col_begin;  // a multiple of 16 (quantised) or 4 (float)
  int64_t col_end;    // likewise, or n
  int32_t row_begin;  // a multiple of 16
  int32_t row_end;
  const std::byte* activations;  // ActivationGroup, bf16 or f32, as the weight type needs
  int64_t activation_stride;     // bytes from row to row
  float* y;                      // row 0, the part's column 0
  int64_t y_stride;
  TileEpilogue epilogue;
};

// Bytes from row to row of quantised and of bf16 activations. The odd 64 bytes keep the rows of a
// tile out of each other's cache sets when k is a power of two.
static constexpr int64_t quantised_stride(int64_t k) {
  return (k / kGroup * static_cast<int64_t>(sizeof(ActivationGroup)) + 63) / 64 * 64 + 64;
}
static constexpr int64_t bf16_stride(int64_t k) { return (2 * k + 63) / 64 * 64 + 64; }

// Rows of x, and where their converted forms begin.
struct RowsTask {
  const float* x;
  int64_t x_stride;
  int64_t k;
  int32_t row_begin;
  int32_t row_end;
  std::byte* out;  // of row 0
};

struct LinearKernels {
  // Quantises rows to ActivationGroup[k / 32], quantised_stride apart.
  void (*quantize_rows)(const RowsTask& task);
  // Rounds rows to bf16 in the form that the level's bf16 kernel reads, bf16_stride a row in all.
  // row_begin is a multiple of `round_granularity`.
  void (*round_rows)(const RowsTask& task);
  int32_t round_granularity;
  void (*quantised_columns)(const ColumnTask& task);
  void (*float_columns)(const ColumnTask& task);
};

const LinearKernels& linear_kernels_reference();
const LinearKernels& linear_kernels_avx2();
const LinearKernels& linear_kernels_avx512();
const LinearKernels& linear_kernels_amx();

// Parts of levels that are compiled apart, for their size or because their instructions are
// optional.
void quantised_columns_avx2_pairs(const ColumnTask& task);
void quantised_columns_avx2_vnni(const ColumnTask& task);  // AVX-VNNI
void float_columns_avx2(const ColumnTask& task);
void quantised_columns_avx512(const ColumnTask& task);
void float_columns_avx512(const ColumnTask& task);
void bf16_columns_avx512(const ColumnTask& task);  // AVX512_BF16

}  // namespace encore::kernels
