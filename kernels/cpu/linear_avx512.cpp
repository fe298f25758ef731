// Quantised weights with AVX-512 VNNI, and conversion of activations.
#include <immintrin.h>

#include "linear_epilogue.h"
#include "linear_panels_avx512.h"

namespace encore::kernels {
namespace {

// Groups of inputs whose panels stay in the first cache while kSumRows rows pass.
constexpr int64_t kChunkGroups = 24;
constexpr int64_t kSumRows = 96;

// Partial sums of one tile of R rows by P panels.
template <int R, int P>
struct Tile {
  __m512 sum[R][P];
};

// Where a tile reads: P panels that follow each other, rows, and the groups of their inputs.
template <int P>
struct TileInput {
  const uint8_t* panel[P];
  const std::byte* x;  // the first row
  int64_t x_stride;
  int64_t k;
  int64_t group_begin;
  int64_t group_end;
  int64_t prefetch;  // bytes ahead of use to fetch weights, 0 for none
};

inline const ActivationGroup* row_groups(const std::byte* x, int64_t stride, int row) {
  return reinterpret_cast<const ActivationGroup*>(x + row * stride);
}

// Inputs 0 and 2 (pair 0) or 1 and 3 (pair 1) of a quad, in every lane.
inline __m512i broadcast_pair(const ActivationGroup& group, int quad, int pair) {
  int32_t value;
  __builtin_memcpy(&value, group.codes + 4 * quad + 2 * pair, sizeof(value));
  return _mm512_set1_epi32(value);
}

// Minus the format's zero times the codes of x: a dot product of unsigned codes starts from it.
template <typename Format, int kFirst, int kCount>
inline __m512i zero_correction(const ActivationGroup& x) {
  if constexpr (Format::kZeroShift == 0) return _mm512_setzero_si512();
  const int32_t negative =
      kCount == 8 ? x.negative_sum[0] + x.negative_sum[1] : x.negative_sum[kFirst / 4];
  return _mm512_set1_epi32(negative * (1 << Format::kZeroShift));
}

// Adds the products of one quad of a group to `dot`.
template <typename Format, int R, int P>
[[gnu::always_inline]] inline void multiply_quad(const TileInput<P>& in, int64_t g, int quad,
                                                 __m512i (&dot)[R][P]) {
  __m512i codes[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    codes[p] = Format::codes(in.panel[p] + g * Format::kCodeBytes, quad);
  }
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; ++pair) {
    __m512i w[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) w[p] = pair == 0 ? even_bytes(codes[p]) : odd_bytes(codes[p]);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i x = broadcast_pair(row_groups(in.x, in.x_stride, r)[g], quad, pair);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) dot[r][p] = _mm512_dpwssd_epi32(dot[r][p], w[p], x);
    }
  }
}

// Adds the integer dot products of quads [kFirst, kFirst + kCount) of a group, then scales them.
template <typename Format, int R, int P, int kFirst, int kCount, bool kMin>
[[gnu::always_inline]] inline void accumulate(const TileInput<P>& in, int64_t g,
                                              const PanelScales (&scales)[P], Tile<R, P>& tile) {
  __m512i dot[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const auto start = zero_correction<Format, kFirst, kCount>(row_groups(in.x, in.x_stride, r)[g]);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) dot[r][p] = start;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    // Quads that share bytes follow each other, so that the bytes are loaded once.
    const int quad = kCount == 8 ? (i % 2) * 4 + i / 2 : kFirst + i;
    multiply_quad<Format>(in, g, quad, dot);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const ActivationGroup& x = row_groups(in.x, in.x_stride, r)[g];
    const __m512 x_scale = _mm512_set1_ps(x.scale);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const __m512 scale = _mm512_mul_ps(scales[p].scale[kFirst / 4], x_scale);
      __m512& sum = tile.sum[r][p];
      sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r][p]), scale, sum);
      if constexpr (kMin) {
        sum = _mm512_fmadd_ps(scales[p].min, _mm512_set1_ps(x.scaled_sum), sum);
      }
    }
  }
}

template <typename Format, int P>
inline void prefetch_group(const TileInput<P>& in, int panel, int64_t g) {
  if (in.prefetch == 0) return;
  const uint8_t* ahead = in.panel[panel] + in.prefetch + g * Format::kGroupBytes;
  for (int line = 0; line < Format::kGroupBytes; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T0);
  }
}

// Adds the products of R rows to `sums` [R][P * 16].
template <typename Format, int R, int P>
void add_tile(const TileInput<P>& in, float* sums) {
  Tile<R, P> tile;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) tile.sum[r][p] = _mm512_loadu_ps(sums + (r * P + p) * 16);
  }
  const int64_t code_bytes = in.k / kGroup * Format::kCodeBytes;
  for (int64_t g = in.group_begin; g < in.group_end; ++g) {
    PanelScales scales[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      scales[p] = Format::scales(in.panel[p] + code_bytes, g);
      prefetch_group<Format>(in, p, g);
    }
    if constexpr (Format::kHalves) {
      accumulate<Format, R, P, 0, 4, false>(in, g, scales, tile);
      accumulate<Format, R, P, 4, 4, Format::kMin>(in, g, scales, tile);
    } else {
      accumulate<Format, R, P, 0, 8, Format::kMin>(in, g, scales, tile);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) _mm512_storeu_ps(sums + (r * P + p) * 16, tile.sum[r][p]);
  }
}

// A tile of `rows` rows, 1 .. R.
template <typename Format, int R, int P>
void add_rows(const TileInput<P>& in, int64_t rows, float* sums) {
  if constexpr (R > 1) {
    if (rows < R) return add_rows<Format, R - 1, P>(in, rows, sums);
  }
  add_tile<Format, R, P>(in, sums);
}

// The panels from `column` on and the rows from `row` on; all groups.
template <int P>
TileInput<P> tile_input(const ColumnTask& task, int64_t column, int64_t row, bool prefetch) {
  const int64_t bytes = panel_bytes(task.type, task.k);
  TileInput<P> in;
  for (int p = 0; p < P; ++p) {
    in.panel[p] =
        reinterpret_cast<const uint8_t*>(task.weights) + (column / kPanelColumns + p) * bytes;
  }
  in.x = task.activations + row * task.activation_stride;
  in.x_stride = task.activation_stride;
  in.k = task.k;
  in.group_begin = 0;
  in.group_end = task.k / kGroup;
  in.prefetch = prefetch ? P * bytes : 0;
  return in;
}

// `rows` rows from `row_begin` on of P panels, in tiles of up to 6 rows, as equal as can be, for
// one chunk of inputs after another: a chunk of the panels stays in the first cache meanwhile.
template <typename Format, int P>
void run_rows(const ColumnTask& task, int64_t column, int64_t row_begin, int64_t rows) {
  constexpr int kMaxRows = 6;
  constexpr int64_t kWidth = P * kPanelColumns;
  alignas(64) float sums[kSumRows * kWidth];
  __builtin_memset(sums, 0, static_cast<size_t>(rows * kWidth) * sizeof(float));
  const int64_t groups = task.k / kGroup;
  const int64_t tiles = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t g = 0; g < groups; g += kChunkGroups) {
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      // The first tile brings its panels from memory; it also sends for the next ones.
      const bool first = t == 0 && row_begin == task.row_begin;
      TileInput<P> in = tile_input<P>(task, column, row_begin + row, first);
      in.group_begin = g;
      in.group_end = smaller(groups, g + kChunkGroups);
      add_rows<Format, kMaxRows>(in, rows * (t + 1) / tiles - row, sums + row * kWidth);
    }
  }
  const int64_t count = smaller(kWidth, task.n - column);
  for (int64_t r = 0; r < rows; ++r) {
    finish_row(task, row_begin + r, column, count, sums + r * kWidth);
  }
}

template <typename Format, int P>
void run_panels(const ColumnTask& task, int64_t column) {
  for (int64_t row = task.row_begin; row < task.row_end; row += kSumRows) {
    run_rows<Format, P>(task, column, row, smaller(kSumRows, task.row_end - row));
  }
}

// One or two rows: bound by memory, so four panels at a time, as four streams, while the next four
// are sent for. Returns the panels done.
template <typename Format, int R>
int64_t run_streams(const ColumnTask& task, int64_t panels) {
  constexpr int64_t kWidth = 4 * kPanelColumns;
  int64_t done = 0;
  for (; done + 4 <= panels; done += 4) {
    const int64_t column = task.col_begin + done * kPanelColumns;
    alignas(64) float sums[R * kWidth] = {};
    add_tile<Format, R>(tile_input<4>(task, column, task.row_begin, true), sums);
    const int64_t count = smaller(kWidth, task.n - column);
    for (int r = 0; r < R; ++r) {
      finish_row(task, task.row_begin + r, column, count, sums + r * kWidth);
    }
  }
  return done;
}

template <typename Format>
void run_columns(const ColumnTask& task) {
  const int64_t panels = (task.col_end - task.col_begin + kPanelColumns - 1) / kPanelColumns;
  const int32_t rows = task.row_end - task.row_begin;
  int64_t done = 0;
  if (rows == 1) done = run_streams<Format, 1>(task, panels);
  if (rows == 2) done = run_streams<Format, 2>(task, panels);
  for (; done + 2 <= panels; done += 2) {
    run_panels<Format, 2>(task, task.col_begin + done * kPanelColumns);
  }
  if (done < panels) run_panels<Format, 1>(task, task.col_begin + done * kPanelColumns);
}

// Largest of the 16 lanes of each of four vectors, as one vector.
inline __m128i largest_lanes(const __m512i (&v)[4]) {
  const auto quarter = [](__m512i a) {
    const __m256i half =
        _mm256_max_epu32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    return _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  };
  const __m128i r0 = quarter(v[0]);
  const __m128i r1 = quarter(v[1]);
  const __m128i r2 = quarter(v[2]);
  const __m128i r3 = quarter(v[3]);
  const __m128i r01 = _mm_max_epu32(_mm_unpacklo_epi32(r0, r1), _mm_unpackhi_epi32(r0, r1));
  const __m128i r23 = _mm_max_epu32(_mm_unpacklo_epi32(r2, r3), _mm_unpackhi_epi32(r2, r3));
  return _mm_max_epu32(_mm_unpacklo_epi64(r01, r23), _mm_unpackhi_epi64(r01, r23));
}

// Of each four words, 0 and 2, then 1 and 3 (code_index).
inline __m256i even_odd(__m256i words) {
  return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xD8), 0xD8);
}

inline int32_t sum_words(__m256i words) {
  const __m256i pairs = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1)));
}

// Quantises `count` groups, 1 to 4, side by side; the vectors of absent ones are zero.
void quantize_groups(const float* x, int count, ActivationGroup* out) {
  const __m512i absolute = _mm512_set1_epi32(0x7FFFFFFF);
  __m512 values[4][2];
  __m512i largest[4];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const auto mask = static_cast<__mmask16>(g < count ? 0xFFFF : 0);
    values[g][0] = _mm512_maskz_loadu_ps(mask, x + g * kGroup);
    values[g][1] = _mm512_maskz_loadu_ps(mask, x + g * kGroup + 16);
    largest[g] = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(values[g][0]), absolute),
                                  _mm512_and_si512(_mm512_castps_si512(values[g][1]), absolute));
  }
  const __m128 magnitude = _mm_castsi128_ps(largest_lanes(largest));
  const __mmask8 live =
      _mm_cmp_ps_mask(magnitude, _mm_set1_ps(kSmallestActivation), _CMP_NLT_UQ) & 0xF;
  const __m128 most = _mm_set1_ps(kLargestCode);
  alignas(16) float scale[4];
  alignas(16) float inverse[4];
  _mm_store_ps(scale, _mm_maskz_div_ps(live, magnitude, most));
  _mm_store_ps(inverse, _mm_maskz_div_ps(live, most, magnitude));
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    if (g == count) break;
    const __m512 factor = _mm512_set1_ps(inverse[g]);
    int32_t sums[2];
    for (int half = 0; half < 2; ++half) {
      const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(values[g][half], factor));
      const __m256i codes = _mm512_cvtsepi32_epi16(code);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out[g].codes + 16 * half), even_odd(codes));
      sums[half] = sum_words(codes);
    }
    out[g].scale = scale[g];
    out[g].scaled_sum = scale[g] * static_cast<float>(sums[0] + sums[1]);
    out[g].negative_sum[0] = -sums[0];
    out[g].negative_sum[1] = -sums[1];
  }
}

void quantize_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    auto* out = reinterpret_cast<ActivationGroup*>(task.out + row * quantised_stride(task.k));
    const int64_t groups = task.k / kGroup;
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4) quantize_groups(x + g * kGroup, 4, out + g);
    if (g < groups) quantize_groups(x + g * kGroup, static_cast<int>(groups - g), out + g);
  }
}

// Nearest even by integer arithmetic, for processors without AVX512_BF16; same bits as its
// instruction except that denormals are kept.
void round_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    auto* out = reinterpret_cast<uint16_t*>(task.out + row * bf16_stride(task.k));
    for (int64_t i = 0; i < task.k; i += 16) {
      const int64_t left = smaller(16, task.k - i);
      const auto mask = static_cast<__mmask16>((1U << left) - 1U);
      const __m512 value = _mm512_maskz_loadu_ps(mask, x + i);
      const __m512i bits = _mm512_castps_si512(value);
      const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
      const __m512i rounded =
          _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
      const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
      const __m512i result = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
      _mm512_mask_cvtepi32_storeu_epi16(out + i, mask, _mm512_srli_epi32(result, 16));
    }
  }
}

void float_columns(const ColumnTask& task) {
  if (task.type == WeightType::kBF16 && cpu_features().avx512_bf16) {
    bf16_columns_avx512(task);
  } else {
    float_columns_avx512(task);
  }
}

}  // namespace

void quantised_columns_avx512(const ColumnTask& task) {
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

const LinearKernels& linear_kernels_avx512() {
  static constexpr LinearKernels kKernels = {quantize_rows, round_rows, 1, quantised_columns_avx512,
                                             float_columns};
  return kKernels;
}

}  // namespace encore::kernels
