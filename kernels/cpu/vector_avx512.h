// Sixteen f32 lanes of AVX-512. Include only in files compiled for it.
#pragma once

// g++ 12 takes the undefined operands inside its own header for uninitialised variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif

#include <cstdint>

namespace encore::kernels {
namespace {

struct Vector {
  using F = __m512;
  static constexpr int32_t kLanes = 16;

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load_bf16(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static F load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // Eight lanes, the others zero.
  static F load_eight_bf16(const uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    return _mm512_zextps256_ps512(_mm256_castsi256_ps(wide));
  }
  static F load_eight_f16(const uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_zextps256_ps512(_mm256_cvtph_ps(bits));
  }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  // Rounded to nearest even.
  static void store_f16(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store_bf16(uint16_t* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet)));
  }
  // The first n lanes, 0 <= n <= kLanes; the others are zero, or not written.
  static F load_first(const float* p, int32_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store_first(float* p, int32_t n, F x) { _mm512_mask_storeu_ps(p, first(n), x); }
  // x with lanes n .. replaced.
  static F replace_from(F x, int32_t n, float other) {
    return _mm512_mask_blend_ps(first(n), set(other), x);
  }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fms(F a, F b, F c) { return _mm512_fmsub_ps(a, b, c); }
  // a * b - c in even lanes, a * b + c in odd ones.
  static F fma_subtract_add(F a, F b, F c) { return _mm512_fmaddsub_ps(a, b, c); }
  static F swap_pairs(F x) { return _mm512_permute_ps(x, 0xB1); }
  // p[0], p[0], p[1], p[1], ...
  static F load_twice(const float* p) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  // b if either is NaN.
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F round(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x * 2^n for a whole n; -200 gives 0 and 200 infinity for x near 1.
  static constexpr float kScaleLimit = 200.0F;
  static F scale(F x, F n) { return _mm512_scalef_ps(x, n); }

  // Bit i is set where a[i] > b[i] (or >=); clear for NaN.
  static uint32_t above(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  static uint32_t at_least(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }

  // Sum in a fixed tree: lanes i and i + 8, then 4, 2, 1.
  static float sum(F x) { return _mm512_reduce_add_ps(x); }
  static float highest(F x) { return _mm512_reduce_max_ps(x); }
  // Sum in double.
  static double wide_sum(F x) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
  }

 private:
  static __mmask16 first(int32_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
};

}  // namespace
}  // namespace encore::kernels
