// Float weights with AVX2 and FMA: the 16 lanes of linear.h as two vectors of 8.
#include <immintrin.h>

#include "linear_rows.h"

namespace encore::kernels {
namespace {

struct Lanes {
  __m256 low;   // 0..7
  __m256 high;  // 8..15
};

inline Lanes load_lanes(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }

inline __m128i load_eight(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

inline __m256 widen_bf16(__m128i values) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(values), 16));
}

struct ElementF32 {
  using Weight = float;
  using Activation = float;
  static Lanes weight(const float* p) { return load_lanes(p); }
  static Lanes activation(const float* p) { return load_lanes(p); }
};

struct ElementF16 {
  using Weight = uint16_t;
  using Activation = float;
  static Lanes weight(const uint16_t* p) {
    return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 8))};
  }
  static Lanes activation(const float* p) { return load_lanes(p); }
};

struct ElementBF16 {
  using Weight = uint16_t;
  using Activation = uint16_t;
  static Lanes weight(const uint16_t* p) {
    return {widen_bf16(load_eight(p)), widen_bf16(load_eight(p + 8))};
  }
  static Lanes activation(const uint16_t* p) { return weight(p); }
};

inline Lanes multiply_add(const Lanes& sum, const Lanes& w, const Lanes& x) {
  return {_mm256_fmadd_ps(w.low, x.low, sum.low), _mm256_fmadd_ps(w.high, x.high, sum.high)};
}

// + 8, + 4, + 2, + 1.
inline float add_lanes(const Lanes& sum) {
  const __m256 sum8 = _mm256_add_ps(sum.low, sum.high);
  const __m128 sum4 = _mm_add_ps(_mm256_castps256_ps128(sum8), _mm256_extractf128_ps(sum8, 1));
  const __m128 sum2 = _mm_add_ps(sum4, _mm_movehl_ps(sum4, sum4));
  return _mm_cvtss_f32(_mm_add_ss(sum2, _mm_movehdup_ps(sum2)));
}

template <typename Element>
struct RowsAvx2 {
  using Weight = typename Element::Weight;
  using Activation = typename Element::Activation;
  static constexpr int kTileRows = 3;
  static constexpr int kTileColumns = 2;
  static constexpr int kDecodeColumns = 4;

  template <int R, int C>
  static void run(const ChunkTile<RowsAvx2, R, C>& tile, int64_t begin, int64_t end) {
    Lanes sum[R][C];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    }
    int64_t k = begin;
    for (; k + 16 <= end; k += 16) {
      Lanes w[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) w[c] = Element::weight(tile.w[c] + k);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Lanes x = Element::activation(tile.x[r] + k);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sum[r][c] = multiply_add(sum[r][c], w[c], x);
      }
    }
    if (k < end) add_tail(tile, k, end, sum);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) tile.sums[r * kSumColumns + c] += add_lanes(sum[r][c]);
    }
  }

 private:
  template <typename T>
  struct Padded {
    T values[16] = {};
    Padded(const T* p, int64_t count) {
      for (int64_t i = 0; i < count; ++i) values[i] = p[i];
    }
  };

  // The last inputs, fewer than 16.
  template <int R, int C>
  static void add_tail(const ChunkTile<RowsAvx2, R, C>& tile, int64_t k, int64_t end,
                       Lanes (&sum)[R][C]) {
    for (int r = 0; r < R; ++r) {
      const Padded<Activation> x(tile.x[r] + k, end - k);
      for (int c = 0; c < C; ++c) {
        const Padded<Weight> w(tile.w[c] + k, end - k);
        sum[r][c] =
            multiply_add(sum[r][c], Element::weight(w.values), Element::activation(x.values));
      }
    }
  }
};

}  // namespace

void float_columns_avx2(const ColumnTask& task) {
  switch (task.type) {
    case WeightType::kF32:
      return run_float_columns<RowsAvx2<ElementF32>>(task);
    case WeightType::kF16:
      return run_float_columns<RowsAvx2<ElementF16>>(task);
    case WeightType::kBF16:
      return run_float_columns<RowsAvx2<ElementBF16>>(task);
    default:
      return;
  }
}

}  // namespace encore::kernels
