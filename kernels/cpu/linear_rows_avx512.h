// Float weights, row by row, for AVX-512: the tile, over an `Element` that says how 16 or 32 inputs
// are loaded and multiplied. Private to each including file.
//
// Element: kStep (inputs a vector), Vector, Weight and Activation (stored types),
//   load_weight(const Weight*, mask), load_activation(const Activation*, mask), the same without a
//   mask, and multiply_add(sum, w, x).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "linear_rows.h"

namespace encore::kernels {
namespace {

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

template <typename Element>
struct RowsAvx512 {
  using Weight = typename Element::Weight;
  using Activation = typename Element::Activation;
  static constexpr int kTileRows = 6;
  static constexpr int kTileColumns = 4;
  static constexpr int kDecodeColumns = 8;

  template <int R, int C>
  static void run(const ChunkTile<RowsAvx512, R, C>& tile, int64_t begin, int64_t end) {
    __m512 sum[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = _mm512_setzero_ps();
    }
    int64_t k = begin;
    for (; k + Element::kStep <= end; k += Element::kStep) {
      typename Element::Vector w[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        w[c] = Element::load_weight(tile.w[c] + k);
        if (tile.prefetch > 0) {
          _mm_prefetch(reinterpret_cast<const char*>(tile.w[c] + k + tile.prefetch), _MM_HINT_T0);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const typename Element::Vector x = Element::load_activation(tile.x[r] + k);
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] = Element::multiply_add(sum[r][c], w[c], x);
      }
    }
    if (k < end) add_tail(tile, k, end, sum);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; c += 4) {
        float* out = tile.sums + r * kSumColumns + c;
        const __m128 chunk = add_lanes(sum[r][c], sum[r][c + 1], sum[r][c + 2], sum[r][c + 3]);
        _mm_storeu_ps(out, _mm_add_ps(_mm_loadu_ps(out), chunk));
      }
    }
  }

 private:
  // The last inputs, fewer than a vector.
  template <int R, int C>
  static void add_tail(const ChunkTile<RowsAvx512, R, C>& tile, int64_t k, int64_t end,
                       __m512 (&sum)[R][C]) {
    const auto mask = static_cast<uint32_t>((uint64_t{1} << (end - k)) - 1);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const typename Element::Vector x = Element::load_activation(tile.x[r] + k, mask);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        sum[r][c] = Element::multiply_add(sum[r][c], Element::load_weight(tile.w[c] + k, mask), x);
      }
    }
  }
};

}  // namespace
}  // namespace encore::kernels
