// Weight formats: how GGUF stores them, and how the CPU kernels keep them in memory.
//
// Float weights are used as the file holds them, row by row. Quantised weights stay quantised but
// are interleaved once, at load, into panels of 16 output features, so that one 64-byte vector
// holds four consecutive inputs of 16 outputs: its even and its odd bytes, widened, are operands of
// an instruction that multiplies pairs of int16. One layout serves all levels.
//
// Every quantised format is, in groups of 16 or 32 consecutive inputs of one output,
//     w = scale * (code - zero) + min,      code an unsigned integer of 4, 5, 6 or 8 bits:
//
//   format  group  zero  scale       min          in file              packed, bits per weight
//   Q8_0    32     128   d           -            d f16, 32 int8       8.5   (8.5 in the file)
//   Q4_0    32     8     d           -            d f16, 16 bytes      4.5   (4.5)
//   Q4_1    32     0     d           m            d, m f16, 16 bytes   5.0   (5.0)
//   Q4_K    32     0     d * sc      -dmin * mn   256 in 144 bytes     4.625 (4.5)
//   Q5_K    32     0     d * sc      -dmin * mn   256 in 176 bytes     5.625 (5.5)
//   Q6_K    16     32    d * sc      -            256 in 210 bytes     6.5625 (6.5625)
//
// d, m, dmin are f16; sc and mn are 6-bit (Q4_K, Q5_K) or int8 (Q6_K) integers, so the products
// are exact in f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace encore::kernels {

// The same numbers as encore::DType.
enum class WeightType : int32_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kQ8_0 = 32,
  kQ4_0 = 33,
  kQ4_1 = 34,
  kQ4_K = 35,
  kQ5_K = 36,
  kQ6_K = 37,
};

constexpr bool is_quantised(WeightType type) { return static_cast<int32_t>(type) >= 32; }

// Elements of a row that the file stores together, and the bytes that hold them.
int32_t block_elements(WeightType type);
int32_t block_bytes(WeightType type);

float f16_to_f32(uint16_t value);
// Nearest even; NaN stays NaN.
uint16_t f32_to_bf16(float value);
inline float bf16_to_f32(uint16_t value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value) << 16);
}

// Writes `elements` values of one row, read in the file's layout from `src` (any alignment).
// REQUIRES: elements is a multiple of block_elements(type).
void dequantize_row(WeightType type, const void* src, int64_t elements, float* dst);

// A weight matrix [n, k] in the form that `linear` reads: n output features of k inputs.
// Borrows `data`: packed panels (quantised; 64-byte aligned) or rows as in the file (float; aligned
// to the element).
struct PackedWeight {
  WeightType type = WeightType::kF32;
  const void* data = nullptr;
  int64_t n = 0;
  int64_t k = 0;
};

// Bytes of a packed [n, k]; for float types n * k elements.
// REQUIRES: k is a multiple of block_elements(type); n, k >= 0; the product fits (the model loader
// has checked both against the file's size).
size_t packed_bytes(WeightType type, int64_t n, int64_t k);

// Packs rows [row_begin, row_end) of `src`, the whole [n, k] as in the file, into `dst`, the whole
// packed matrix. Threads may pack different rows at once.
// REQUIRES: row_begin is a multiple of 16; row_end is too, or is n. The panel that holds row n - 1
// has its missing rows zeroed.
void pack_weight(WeightType type, const void* src, int64_t n, int64_t k, int64_t row_begin,
                 int64_t row_end, void* dst);

// Writes row `row` of `weight` as f32: bit for bit what dequantize_row gives from the file. For an
// embedding that shares its table with the head.
void dequantize_packed_row(const PackedWeight& weight, int64_t row, float* dst);

}  // namespace encore::kernels
