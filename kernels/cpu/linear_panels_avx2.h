// Quantised weights in 256-bit vectors: formats, tiles and loops, over a `Dot` that says how words
// are multiplied (AVX2, or AVX-VNNI). Private to each including file.
//
// Dot::add(sum, w, x): sum + the products of each lane's two words, in int32.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

inline constexpr int kTileRows = 4;

// Half h (outputs 8h .. 8h + 7) of the things that one panel's group holds.
struct HalfScales {
  __m256 scale[2];  // of each half of the group's inputs
  __m256 min;
};

inline __m256i load_half(const uint8_t* codes, int vector, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 64 * vector + 32 * half));
}

inline __m256 load_f16_half(const uint8_t* scales, int half) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + 16 * half)));
}

inline __m128i load_bytes_half(const uint8_t* scales, int half) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(scales + 8 * half));
}

inline __m256 float_unsigned(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

inline __m256 float_signed(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

inline __m256i mask_bytes(__m256i value, int mask) {
  return _mm256_and_si256(value, _mm256_set1_epi8(static_cast<char>(mask)));
}

inline __m256i move_bits(__m256i value, int from, int to) {
  return from > to ? _mm256_srli_epi16(value, from - to) : _mm256_slli_epi16(value, to - from);
}

// Bytes as 16-bit words: 0 and 2, 1 and 3 of each lane's four.
inline __m256i even_bytes(__m256i codes) {
  return _mm256_and_si256(codes, _mm256_set1_epi16(0xFF));
}
inline __m256i odd_bytes(__m256i codes) { return _mm256_srli_epi16(codes, 8); }

template <WeightType kWeightType>
struct HalfFormat {
  static constexpr WeightType kType = kWeightType;
  static constexpr PackedLayout kLayout = layout_of(kType);
  static constexpr int kBits = kLayout.code_bits;
  static constexpr int kZeroShift = kLayout.zero == 0 ? 0 : __builtin_ctz(kLayout.zero | 256);

  [[gnu::always_inline]] static __m256i codes(const uint8_t* codes, int quad, int half) {
    if constexpr (kBits == 8) return load_half(codes, quad, half);
    const __m256i pair = load_half(codes, quad % 4, half);
    const __m256i low = mask_bytes(quad < 4 ? pair : _mm256_srli_epi16(pair, 4), 15);
    if constexpr (kBits == 5) {
      const __m256i high = move_bits(load_half(codes, 4, half), quad, 4);
      return _mm256_or_si256(low, mask_bytes(high, 0x10));
    }
    if constexpr (kBits == 6) {
      const __m256i high = move_bits(load_half(codes, 4 + quad / 4, half), quad % 4 * 2, 4);
      return _mm256_or_si256(low, mask_bytes(high, 0x30));
    }
    return low;
  }

  static HalfScales scales(const uint8_t* scales, int64_t g, int half) {
    if constexpr (kType == WeightType::kQ4_1) {
      const __m256 d = load_f16_half(scales + g * 64, half);
      return {{d, d}, load_f16_half(scales + g * 64 + 32, half)};
    } else if constexpr (kType == WeightType::kQ4_K || kType == WeightType::kQ5_K) {
      const uint8_t* block = scales + g / 8 * 320;
      const uint8_t* pair = block + 64 + g % 8 * 32;
      const __m256 scale =
          _mm256_mul_ps(load_f16_half(block, half), float_unsigned(load_bytes_half(pair, half)));
      const __m256 min = _mm256_mul_ps(load_f16_half(block + 32, half),
                                       float_unsigned(load_bytes_half(pair + 16, half)));
      return {{scale, scale}, min};
    } else if constexpr (kType == WeightType::kQ6_K) {
      const uint8_t* block = scales + g / 8 * 288;
      const uint8_t* pair = block + 32 + g % 8 * 32;
      const __m256 d = load_f16_half(block, half);
      return {{_mm256_mul_ps(d, float_signed(load_bytes_half(pair, half))),
               _mm256_mul_ps(d, float_signed(load_bytes_half(pair + 16, half)))},
              d};
    } else {
      const __m256 d = load_f16_half(scales + g * 32, half);
      return {{d, d}, d};
    }
  }
};

struct PanelTileInput {
  const uint8_t* codes;
  const uint8_t* scales;
  const std::byte* x;
  int64_t x_stride;

  const ActivationGroup& group(int row, int64_t g) const {
    return reinterpret_cast<const ActivationGroup*>(x + row * x_stride)[g];
  }
};

// Inputs 0 and 2 (pair 0) or 1 and 3 (pair 1) of a quad, in every lane.
inline __m256i broadcast_pair(const ActivationGroup& group, int quad, int pair) {
  int32_t value;
  __builtin_memcpy(&value, group.codes + 4 * quad + 2 * pair, sizeof(value));
  return _mm256_set1_epi32(value);
}

// Minus the format's zero times the codes of x: a dot product of unsigned codes starts from it.
template <typename Format, int kFirst, int kCount>
inline __m256i zero_correction(const ActivationGroup& x) {
  if constexpr (Format::kZeroShift == 0) return _mm256_setzero_si256();
  const int32_t negative =
      kCount == 8 ? x.negative_sum[0] + x.negative_sum[1] : x.negative_sum[kFirst / 4];
  return _mm256_set1_epi32(negative * (1 << Format::kZeroShift));
}

// Adds the products of one quad of a group to `dot`.
template <typename Format, typename Dot, int R>
[[gnu::always_inline]] inline void multiply_quad(const PanelTileInput& in, int64_t g, int quad,
                                                 __m256i (&dot)[R][2]) {
  const uint8_t* codes = in.codes + g * Format::kLayout.code_bytes;
  const __m256i w0 = Format::codes(codes, quad, 0);
  const __m256i w1 = Format::codes(codes, quad, 1);
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; ++pair) {
    const __m256i words0 = pair == 0 ? even_bytes(w0) : odd_bytes(w0);
    const __m256i words1 = pair == 0 ? even_bytes(w1) : odd_bytes(w1);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256i x = broadcast_pair(in.group(r, g), quad, pair);
      dot[r][0] = Dot::add(dot[r][0], words0, x);
      dot[r][1] = Dot::add(dot[r][1], words1, x);
    }
  }
}

// Quads [kFirst, kFirst + kCount) of a group, R rows by both halves of a panel.
template <typename Format, typename Dot, int R, int kFirst, int kCount>
[[gnu::always_inline]] inline void accumulate(const PanelTileInput& in, int64_t g,
                                              const HalfScales (&scales)[2], __m256 (&sum)[R][2]) {
  __m256i dot[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    dot[r][0] = dot[r][1] = zero_correction<Format, kFirst, kCount>(in.group(r, g));
  }
#pragma GCC unroll 8
  for (int quad = kFirst; quad < kFirst + kCount; ++quad) {
    multiply_quad<Format, Dot>(in, g, quad, dot);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const ActivationGroup& x = in.group(r, g);
    const __m256 x_scale = _mm256_set1_ps(x.scale);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const __m256 scale = _mm256_mul_ps(scales[h].scale[kFirst / 4], x_scale);
      sum[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][h]), scale, sum[r][h]);
      if constexpr (Format::kLayout.has_min) {
        sum[r][h] = _mm256_fmadd_ps(scales[h].min, _mm256_set1_ps(x.scaled_sum), sum[r][h]);
      }
    }
  }
}

template <typename Format, typename Dot, int R>
void store_tile(const ColumnTask& task, int64_t row, int64_t column) {
  const auto* panel = reinterpret_cast<const uint8_t*>(task.weights) +
                      column / kPanelColumns * panel_bytes(Format::kType, task.k);
  const PanelTileInput in{panel, panel + panel_code_bytes(Format::kType, task.k),
                          task.activations + row * task.activation_stride, task.activation_stride};
  __m256 sum[R][2];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (int64_t g = 0; g < task.k / kGroup; ++g) {
    const HalfScales scales[2] = {Format::scales(in.scales, g, 0), Format::scales(in.scales, g, 1)};
    if constexpr (R == 1) {
      const uint8_t* ahead = in.codes + g * Format::kLayout.code_bytes + 2048;
      for (int line = 0; line < Format::kLayout.code_bytes; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T0);
      }
    }
    if constexpr (Format::kLayout.scale_group == 16) {
      accumulate<Format, Dot, R, 0, 4>(in, g, scales, sum);
      accumulate<Format, Dot, R, 4, 4>(in, g, scales, sum);
    } else {
      accumulate<Format, Dot, R, 0, 8>(in, g, scales, sum);
    }
  }
  for (int r = 0; r < R; ++r) {
    alignas(32) float sums[kPanelColumns];
    _mm256_store_ps(sums, sum[r][0]);
    _mm256_store_ps(sums + 8, sum[r][1]);
    finish_row(task, row + r, column, smaller(kPanelColumns, task.n - column), sums);
  }
}

template <typename Format, typename Dot>
void run_columns(const ColumnTask& task) {
  const int64_t rows = task.row_end - task.row_begin;
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t column = task.col_begin; column < task.col_end; column += kPanelColumns) {
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = task.row_begin + rows * t / tiles;
      switch (task.row_begin + rows * (t + 1) / tiles - begin) {
        case 1:
          store_tile<Format, Dot, 1>(task, begin, column);
          break;
        case 2:
          store_tile<Format, Dot, 2>(task, begin, column);
          break;
        case 3:
          store_tile<Format, Dot, 3>(task, begin, column);
          break;
        default:
          store_tile<Format, Dot, 4>(task, begin, column);
          break;
      }
    }
  }
}

template <typename Dot>
void run_format(const ColumnTask& task) {
  switch (task.type) {
    case WeightType::kQ8_0:
      return run_columns<HalfFormat<WeightType::kQ8_0>, Dot>(task);
    case WeightType::kQ4_0:
      return run_columns<HalfFormat<WeightType::kQ4_0>, Dot>(task);
    case WeightType::kQ4_1:
      return run_columns<HalfFormat<WeightType::kQ4_1>, Dot>(task);
    case WeightType::kQ4_K:
      return run_columns<HalfFormat<WeightType::kQ4_K>, Dot>(task);
    case WeightType::kQ5_K:
      return run_columns<HalfFormat<WeightType::kQ5_K>, Dot>(task);
    case WeightType::kQ6_K:
      return run_columns<HalfFormat<WeightType::kQ6_K>, Dot>(task);
    default:
      return;
  }
}

}  // namespace
}  // namespace encore::kernels
