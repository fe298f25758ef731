#include "peak.h"

#include <immintrin.h>

namespace encore::kernels {
namespace {

constexpr int kChains = 24;

// Hides a value's origin, or equal chains would be computed once.
template <typename Vector>
inline void hide(Vector& value) {
  __asm__ volatile("" : "+v"(value));
}

}  // namespace

uint64_t int16_loop(int64_t steps) {
  __m512i sum[kChains] = {};
  __m512i w = _mm512_set1_epi16(3);
  const __m512i x = _mm512_set1_epi16(5);
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) hide(sum[c]);
  for (int64_t i = 0; i < steps; ++i) {
    hide(w);
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_dpwssd_epi32(sum[c], w, x);
  }
#pragma GCC unroll 24
  for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_epi32(sum[0], sum[c]);
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(sum[0]));
}

uint64_t bf16_loop(int64_t steps) {
  __m512 sum[kChains] = {};
  __m512i w = _mm512_set1_epi16(0x3F80);
  const __m512i x = w;
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) hide(sum[c]);
  for (int64_t i = 0; i < steps; ++i) {
    hide(w);
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) {
      sum[c] =
          _mm512_dpbf16_ps(sum[c], reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
    }
  }
#pragma GCC unroll 24
  for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_ps(sum[0], sum[c]);
  return static_cast<uint64_t>(_mm512_reduce_add_ps(sum[0]));
}

int64_t int16_loop_ops(int64_t steps) { return steps * kChains * 32 * 2; }
int64_t bf16_loop_ops(int64_t steps) { return steps * kChains * 32 * 2; }

}  // namespace encore::kernels
