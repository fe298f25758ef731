// Quantised weights with AVX2, and conversion of activations.
#include "linear_panels_avx2.h"

namespace encore::kernels {
namespace {

struct PairDot {
  static __m256i add(__m256i sum, __m256i w, __m256i x) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(w, x));
  }
};

void quantised_columns(const ColumnTask& task) {
  if (cpu_features().avx_vnni) {
    quantised_columns_avx2_vnni(task);
  } else {
    quantised_columns_avx2_pairs(task);
  }
}

inline __m256i absolute_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
}

inline uint32_t largest_of(__m256i values) {
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4E));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
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

void quantize_group(const float* x, ActivationGroup* out) {
  __m256 values[4];
  for (int i = 0; i < 4; ++i) values[i] = _mm256_loadu_ps(x + 8 * i);
  const __m256i most =
      _mm256_max_epu32(_mm256_max_epu32(absolute_bits(values[0]), absolute_bits(values[1])),
                       _mm256_max_epu32(absolute_bits(values[2]), absolute_bits(values[3])));
  const float magnitude = __builtin_bit_cast(float, largest_of(most));
  const bool zero = magnitude < kSmallestActivation;
  const __m256 inverse = _mm256_set1_ps(zero ? 0.0F : kLargestCode / magnitude);
  int32_t sums[2];
  for (int half = 0; half < 2; ++half) {
    const __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(values[2 * half], inverse));
    const __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(values[2 * half + 1], inverse));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->codes + 16 * half), even_odd(words));
    sums[half] = sum_words(words);
  }
  out->scale = zero ? 0.0F : magnitude / kLargestCode;
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

// A plain loop, which the compiler vectorises.
void round_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    auto* out = reinterpret_cast<uint16_t*>(task.out + row * bf16_stride(task.k));
    for (int64_t i = 0; i < task.k; ++i) {
      const auto bits = __builtin_bit_cast(uint32_t, x[i]);
      const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
      const uint32_t rounded = nan ? bits | 0x400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
      out[i] = static_cast<uint16_t>(rounded >> 16);
    }
  }
}

}  // namespace

void quantised_columns_avx2_pairs(const ColumnTask& task) { run_format<PairDot>(task); }

const LinearKernels& linear_kernels_avx2() {
  static constexpr LinearKernels kKernels = {quantize_rows, round_rows, 1, quantised_columns,
                                             float_columns_avx2};
  return kKernels;
}

}  // namespace encore::kernels
