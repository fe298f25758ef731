// Eight f32 lanes of AVX2. Include only in files compiled for it.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace encore::kernels {
namespace {

struct Vector {
  using F = __m256;
  static constexpr int32_t kLanes = 8;

  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load_bf16(const uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static F load_f16(const uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_eight_bf16(const uint16_t* p) { return load_bf16(p); }
  static F load_eight_f16(const uint16_t* p) { return load_f16(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  // Rounded to nearest even.
  static void store_f16(uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store_bf16(uint16_t* p, F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packus_epi32(_mm256_castsi256_si128(chosen), _mm256_extracti128_si256(chosen, 1)));
  }
  // The first n lanes, 0 <= n <= kLanes; the others are zero, or not written.
  static F load_first(const float* p, int32_t n) { return _mm256_maskload_ps(p, first(n)); }
  static void store_first(float* p, int32_t n, F x) { _mm256_maskstore_ps(p, first(n), x); }
  // x with lanes n .. replaced.
  static F replace_from(F x, int32_t n, float other) {
    return _mm256_blendv_ps(set(other), x, _mm256_castsi256_ps(first(n)));
  }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fms(F a, F b, F c) { return _mm256_fmsub_ps(a, b, c); }
  // a * b - c in even lanes, a * b + c in odd ones.
  static F fma_subtract_add(F a, F b, F c) { return _mm256_fmaddsub_ps(a, b, c); }
  static F swap_pairs(F x) { return _mm256_permute_ps(x, 0xB1); }
  // p[0], p[0], p[1], p[1], ...
  static F load_twice(const float* p) {
    const __m256i lanes = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), lanes);
  }
  // b if either is NaN.
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // x * 2^n for a whole n in [-127, 128], whose ends give 0 and infinity.
  static constexpr float kScaleLimit = 127.0F;
  static F scale(F x, F n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return mul(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }

  // Bit i is set where a[i] > b[i] (or >=); clear for NaN.
  static uint32_t above(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)));
  }
  static uint32_t at_least(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
  }

  // Sum in a fixed tree: lanes i and i + 4, then 2, 1.
  static float sum(F x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  static float highest(F x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  // Sum in double.
  static double wide_sum(F x) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d both = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
  }

 private:
  static __m256i first(int32_t n) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
  }
};

}  // namespace
}  // namespace encore::kernels
