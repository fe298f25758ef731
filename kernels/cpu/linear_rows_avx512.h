// Float weights, row by row, for AVX-512: the loops, over an `Element` that says how 16 or 32
// inputs are loaded and multiplied. Private to each including file.
//
// Element: kStep (inputs a vector), Vector, Weight and Activation (stored types),
//   load_weight(const Weight*, mask), load_activation(const Activation*, mask), the same without a
//   mask, and multiply_add(sum, w, x).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

// Columns whose sums are kept while the chunks of k pass, and rows likewise: 32 KiB of sums.
constexpr int64_t kSumColumns = 32;
constexpr int64_t kSumRows = 256;
constexpr int kDecodeColumns = 8;

// The 16 lanes of each of four vectors, added as a tree: + 8, + 4, + 2, + 1.
inline __m128 add_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const auto halves = [](__m512 v) {
    const __m256 sum8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
  };
  __m128 r0 = halves(a);
  __m128 r1 = halves(b);
  __m128 r2 = halves(c);
  __m128 r3 = halves(d);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  return _mm_add_ps(_mm_add_ps(r0, r2), _mm_add_ps(r1, r3));
}

// A tile of R rows by C columns over one chunk of k; its sums are added to `sums`.
template <typename Element, int R, int C>
struct ChunkTile {
  const typename Element::Weight* w[C];
  const typename Element::Activation* x[R];
  float* sums;       // [R][kSumColumns]
  int64_t prefetch;  // elements ahead in w to fetch for the next tile; 0 for none

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    __m512 sum[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = _mm512_setzero_ps();
    }
    int64_t k = begin;
    for (; k + Element::kStep <= end; k += Element::kStep) {
      typename Element::Vector wv[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        wv[c] = Element::load_weight(w[c] + k);
        if constexpr (R <= 2) {
          _mm_prefetch(reinterpret_cast<const char*>(w[c] + k + prefetch), _MM_HINT_T0);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const typename Element::Vector xv = Element::load_activation(x[r] + k);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] = Element::multiply_add(sum[r][c], wv[c], xv);
      }
    }
    if (k < end) {
      const auto mask = static_cast<uint32_t>((uint64_t{1} << (end - k)) - 1);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const typename Element::Vector xv = Element::load_activation(x[r] + k, mask);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          sum[r][c] = Element::multiply_add(sum[r][c], Element::load_weight(w[c] + k, mask), xv);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; c += 4) {
        float* out = sums + r * kSumColumns + c;
        const __m128 chunk = add_lanes(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]);
        _mm_storeu_ps(out, _mm_add_ps(_mm_loadu_ps(out), chunk));
      }
    }
  }
};

template <typename Element, int R, int C>
void run_chunk_tile(const ColumnTask& task, int64_t row, int64_t column, int64_t begin, int64_t end,
                    float* sums) {
  ChunkTile<Element, R, C> tile;
  const auto* w = reinterpret_cast<const typename Element::Weight*>(task.weights);
  for (int c = 0; c < C; ++c) tile.w[c] = w + smaller(column + c, task.n - 1) * task.k;
  for (int r = 0; r < R; ++r) {
    tile.x[r] = reinterpret_cast<const typename Element::Activation*>(
        task.activations + (row + r) * task.activation_stride);
  }
  tile.sums = sums;
  tile.prefetch = C * task.k;
  tile.run(begin, end);
}

template <typename Element>
void run_chunk_rows(const ColumnTask& task, int64_t row, int64_t rows, int64_t column,
                    int64_t begin, int64_t end, float* sums) {
  switch (rows) {
    case 1:
      return run_chunk_tile<Element, 1, 4>(task, row, column, begin, end, sums);
    case 2:
      return run_chunk_tile<Element, 2, 4>(task, row, column, begin, end, sums);
    case 3:
      return run_chunk_tile<Element, 3, 4>(task, row, column, begin, end, sums);
    case 4:
      return run_chunk_tile<Element, 4, 4>(task, row, column, begin, end, sums);
    case 5:
      return run_chunk_tile<Element, 5, 4>(task, row, column, begin, end, sums);
    default:
      return run_chunk_tile<Element, 6, 4>(task, row, column, begin, end, sums);
  }
}

// One or two rows, bound by memory: whole rows of w, eight streams.
template <typename Element, int R>
void run_decode(const ColumnTask& task) {
  for (int64_t column = task.col_begin; column < task.col_end; column += kDecodeColumns) {
    float sums[R][kSumColumns] = {};
    for (int64_t k = 0; k < task.k; k += kFloatChunk) {
      run_chunk_tile<Element, R, kDecodeColumns>(task, task.row_begin, column, k,
                                                 smaller(task.k, k + kFloatChunk), sums[0]);
    }
    const int64_t count = smaller(kDecodeColumns, task.col_end - column);
    for (int r = 0; r < R; ++r) finish_row(task, task.row_begin + r, column, count, sums[r]);
  }
}

// Many rows: for each chunk of k, four columns stay in the first cache while the rows pass.
template <typename Element>
void run_prefill(const ColumnTask& task, int64_t row_begin, int64_t row_end, int64_t column) {
  alignas(64) float sums[kSumRows * kSumColumns];
  const int64_t rows = row_end - row_begin;
  const int64_t columns = smaller(kSumColumns, task.col_end - column);
  const int64_t tiles = (rows + 5) / 6;
  __builtin_memset(sums, 0, static_cast<size_t>(rows * kSumColumns) * sizeof(float));
  for (int64_t k = 0; k < task.k; k += kFloatChunk) {
    const int64_t k_end = smaller(task.k, k + kFloatChunk);
    for (int64_t c = 0; c < columns; c += kFloatColumns) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = rows * t / tiles;
        run_chunk_rows<Element>(task, row_begin + row, rows * (t + 1) / tiles - row, column + c, k,
                                k_end, sums + row * kSumColumns + c);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    finish_row(task, row_begin + r, column, columns, sums + r * kSumColumns);
  }
}

template <typename Element>
void run_float_columns(const ColumnTask& task) {
  const int32_t rows = task.row_end - task.row_begin;
  if (rows == 1) return run_decode<Element, 1>(task);
  if (rows == 2) return run_decode<Element, 2>(task);
  for (int64_t row = task.row_begin; row < task.row_end; row += kSumRows) {
    for (int64_t column = task.col_begin; column < task.col_end; column += kSumColumns) {
      run_prefill<Element>(task, row, smaller(task.row_end, row + kSumRows), column);
    }
  }
}

}  // namespace
}  // namespace encore::kernels
