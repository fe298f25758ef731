// How each weight format of a file turns into f32, eight neighbouring elements at a time.
//
// A format is a type with
//   kElements, kBytes     of a group as the file stores it
//   decode(group, e, out) elements e .. e + 7 of the group at `group`; e is a multiple of 8.
//                         `group` is aligned to 2 bytes, to 4 if kBytes is a multiple of 4
// Every product is exact in f32 but Q6_K's, which is rounded once, as on the CPU; so contracting a
// product and a sum changes nothing.
#pragma once

#include "vendor.h"

namespace encore::gpu {

__device__ inline uint32_t load_u16(const uint8_t* p) {
  return *reinterpret_cast<const uint16_t*>(p);
}
__device__ inline float load_f16(const uint8_t* p) {
  return to_float(*reinterpret_cast<const f16*>(p));
}

// Eight bytes, aligned to 2.
struct Eight {
  uint32_t words[2];
  __device__ explicit Eight(const uint8_t* p)
      : words{load_u16(p) | load_u16(p + 2) << 16, load_u16(p + 4) | load_u16(p + 6) << 16} {}
  __device__ uint32_t byte(int i) const { return words[i / 4] >> (i % 4 * 8) & 255U; }
  __device__ uint32_t nibble(int i, bool high) const {
    return words[i / 4] >> (i % 4 * 8 + (high ? 4 : 0)) & 15U;
  }
};

// code - zero as f32, for a code of up to 8 bits: the code as the low bits of 2^23.
__device__ inline float float_of(uint32_t code, float zero = 0.0F) {
  return __uint_as_float(0x4B000000U | code) - (8388608.0F + zero);
}

struct Q8_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 34;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const float d = load_f16(group);
    const Eight codes(group + 2 + e);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * float_of(codes.byte(i) ^ 128U, 128.0F);
  }
};

// The low nibbles of 16 bytes are elements 0 .. 15, the high ones 16 .. 31.
struct Q4_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const float d = load_f16(group);
    const Eight codes(group + 2 + e % 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * float_of(codes.nibble(i, e >= 16), 8.0F);
  }
};

struct Q4_1 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 20;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const float d = load_f16(group);
    const float m = load_f16(group + 2);
    const Eight codes(group + 4 + e % 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * float_of(codes.nibble(i, e >= 16)) + m;
  }
};

// Scale and minimum of 32 elements of a Q4_K or Q5_K group: d, dmin, then eight pairs of 6-bit
// numbers in 12 bytes.
struct ScaleAndMin {
  float scale;
  float min;
  __device__ ScaleAndMin(const uint8_t* group, int part) {
    const uint8_t* packed = group + 4;
    uint32_t sc = packed[part & 3];
    uint32_t mn = packed[(part & 3) + 4];
    if (part < 4) {
      sc &= 63U;
      mn &= 63U;
    } else {
      const uint32_t low = packed[part + 4];
      sc = (low & 15U) | (sc >> 6 << 4);
      mn = (low >> 4) | (mn >> 6 << 4);
    }
    scale = load_f16(group) * float_of(sc);
    min = load_f16(group + 2) * float_of(mn);
  }
};

// Each 32 bytes of codes hold 64 elements: the low nibbles 0 .. 31, the high ones 32 .. 63.
struct Q4_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 144;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const int part = e / 32;
    const ScaleAndMin s(group, part);
    const Eight codes(group + 16 + part / 2 * 32 + e % 32);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = s.scale * float_of(codes.nibble(i, part % 2 == 1)) - s.min;
  }
};

// As Q4_K, with the fifth bits before the nibbles: bit p of byte i is of element 32 * p + i.
struct Q5_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 176;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const int part = e / 32;
    const ScaleAndMin s(group, part);
    const Eight high(group + 16 + e % 32);
    const Eight codes(group + 48 + part / 2 * 32 + e % 32);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t code = codes.nibble(i, part % 2 == 1) | (high.byte(i) >> part & 1U) << 4;
      out[i] = s.scale * float_of(code) - s.min;
    }
  }
};

// Two halves of 128 elements; in each, 64 bytes of low nibbles (low ones: elements 0 .. 63, high
// ones: 64 .. 127) and 32 of bit pairs (pair q of byte i: element 32 * q + i). Then 16 int8 scales
// and d.
struct Q6_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 210;
  static __device__ void decode(const uint8_t* group, int e, float (&out)[8]) {
    const int half = e / 128;
    const int quarter = e / 32 % 4;
    const int i32 = e % 32;
    const Eight low(group + half * 64 + quarter % 2 * 32 + i32);
    const Eight high(group + 128 + half * 32 + i32);
    const uint32_t sc = group[192 + e / 16];
    const float scale = load_f16(group + 208) * float_of(sc ^ 128U, 128.0F);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t code = low.nibble(i, quarter >= 2) | (high.byte(i) >> (2 * quarter) & 3U) << 4;
      out[i] = scale * float_of(code, 32.0F);
    }
  }
};

}  // namespace encore::gpu
