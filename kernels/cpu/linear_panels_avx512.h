// How AVX-512 reads each packed format: codes of a quad as unsigned bytes, and a group's scales.
// Included by files compiled with AVX-512 only; everything is private to the including file.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "quant_layout.h"

namespace encore::kernels {
namespace {

// Of 16 outputs: the scale of each half of the group (equal unless the format has halves), the min.
struct PanelScales {
  __m512 scale[2];
  __m512 min;
};

inline __m512i load_codes(const uint8_t* codes, int vector) {
  return _mm512_loadu_si512(codes + 64 * vector);
}

inline __m512 load_f16(const uint8_t* scales) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales)));
}

inline __m128i load_bytes(const uint8_t* scales) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales));
}

// Bytes as 16-bit words: 0 and 2, 1 and 3 of each lane's four.
inline __m512i even_bytes(__m512i codes) {
  return _mm512_and_si512(codes, _mm512_set1_epi16(0xFF));
}
inline __m512i odd_bytes(__m512i codes) { return _mm512_srli_epi16(codes, 8); }

inline __m512i nibble_codes(const uint8_t* codes, int quad) {
  const __m512i pair = load_codes(codes, quad % 4);
  return _mm512_and_si512(quad < 4 ? pair : _mm512_srli_epi16(pair, 4), _mm512_set1_epi8(15));
}

// Shifts each byte's bit field so that it starts at `to` (bits from neighbours come along: mask).
inline __m512i move_bits(__m512i value, int from, int to) {
  return from > to ? _mm512_srli_epi16(value, from - to) : _mm512_slli_epi16(value, to - from);
}

// low | (high & mask)
inline __m512i merge_bits(__m512i low, __m512i high, int mask) {
  return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(static_cast<char>(mask)), 0xF8);
}

template <WeightType kType>
struct PanelFormat {
  static constexpr PackedLayout kLayout = layout_of(kType);
  static constexpr int kCodeBytes = kLayout.code_bytes;
  // Of codes and scales, on average.
  static constexpr int kGroupBytes =
      kLayout.code_bytes + kLayout.scale_bytes * 32 / kLayout.scale_elements;
  static constexpr int kZeroShift = kLayout.zero == 0 ? 0 : __builtin_ctz(kLayout.zero | 256);
  static constexpr bool kMin = kLayout.has_min;
  static constexpr bool kHalves = kLayout.scale_group == 16;
};

struct PanelQ8 : PanelFormat<WeightType::kQ8_0> {
  static __m512i codes(const uint8_t* codes, int quad) { return load_codes(codes, quad); }
  static PanelScales scales(const uint8_t* scales, int64_t g) {
    const __m512 d = load_f16(scales + g * 32);
    return {{d, d}, d};
  }
};

struct PanelQ4 : PanelFormat<WeightType::kQ4_0> {
  static __m512i codes(const uint8_t* codes, int quad) { return nibble_codes(codes, quad); }
  static PanelScales scales(const uint8_t* scales, int64_t g) {
    const __m512 d = load_f16(scales + g * 32);
    return {{d, d}, d};
  }
};

struct PanelQ41 : PanelFormat<WeightType::kQ4_1> {
  static __m512i codes(const uint8_t* codes, int quad) { return nibble_codes(codes, quad); }
  static PanelScales scales(const uint8_t* scales, int64_t g) {
    const __m512 d = load_f16(scales + g * 64);
    return {{d, d}, load_f16(scales + g * 64 + 32)};
  }
};

// Q4_K and Q5_K: d and -dmin of the 256 inputs times the group's own integers.
inline PanelScales k_scales(const uint8_t* scales, int64_t g) {
  const uint8_t* block = scales + g / 8 * 320;
  const uint8_t* pair = block + 64 + g % 8 * 32;
  const __m512 sc = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_bytes(pair)));
  const __m512 mn = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_bytes(pair + 16)));
  const __m512 scale = _mm512_mul_ps(load_f16(block), sc);
  return {{scale, scale}, _mm512_mul_ps(load_f16(block + 32), mn)};
}

struct PanelQ4K : PanelFormat<WeightType::kQ4_K> {
  static __m512i codes(const uint8_t* codes, int quad) { return nibble_codes(codes, quad); }
  static PanelScales scales(const uint8_t* scales, int64_t g) { return k_scales(scales, g); }
};

struct PanelQ5K : PanelFormat<WeightType::kQ5_K> {
  static __m512i codes(const uint8_t* codes, int quad) {
    const __m512i high = move_bits(load_codes(codes, 4), quad, 4);
    return merge_bits(nibble_codes(codes, quad), high, 0x10);
  }
  static PanelScales scales(const uint8_t* scales, int64_t g) { return k_scales(scales, g); }
};

struct PanelQ6K : PanelFormat<WeightType::kQ6_K> {
  static __m512i codes(const uint8_t* codes, int quad) {
    const __m512i high = move_bits(load_codes(codes, 4 + quad / 4), quad % 4 * 2, 4);
    return merge_bits(nibble_codes(codes, quad), high, 0x30);
  }
  static PanelScales scales(const uint8_t* scales, int64_t g) {
    const uint8_t* block = scales + g / 8 * 288;
    const uint8_t* pair = block + 32 + g % 8 * 32;
    const __m512 d = load_f16(block);
    const __m512 sc0 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(pair)));
    const __m512 sc1 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_bytes(pair + 16)));
    return {{_mm512_mul_ps(d, sc0), _mm512_mul_ps(d, sc1)}, d};
  }
};

}  // namespace
}  // namespace encore::kernels
