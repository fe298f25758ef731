#include "kernels/cpu/quant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "quant_layout.h"

namespace encore::kernels {
namespace {

uint16_t load_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

float load_f16(const uint8_t* p) { return f16_to_f32(load_u16(p)); }

void dequantize_q8_0(const uint8_t* block, float* dst) {
  const float d = load_f16(block);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

void dequantize_q4_0(const uint8_t* block, float* dst) {
  const float d = load_f16(block);
  for (int i = 0; i < 16; ++i) {
    dst[i] = d * static_cast<float>((block[2 + i] & 15) - 8);
    dst[i + 16] = d * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

void dequantize_q4_1(const uint8_t* block, float* dst) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  for (int i = 0; i < 16; ++i) {
    dst[i] = d * static_cast<float>(block[4 + i] & 15) + m;
    dst[i + 16] = d * static_cast<float>(block[4 + i] >> 4) + m;
  }
}

// Q4_K: d, dmin, 12 bytes of scales, 128 of nibbles. Q5_K: 32 bytes of fifth bits before these.
void dequantize_q45_k(const uint8_t* block, bool five_bits, float* dst) {
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  uint8_t scales[8];
  uint8_t mins[8];
  unpack_k_scales(block + 4, scales, mins);
  const uint8_t* high = block + 16;
  const uint8_t* nibbles = block + (five_bits ? 48 : 16);
  for (int g = 0; g < 8; ++g) {
    const float scale = d * static_cast<float>(scales[g]);
    const float min = dmin * static_cast<float>(mins[g]);
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = nibbles[g / 2 * 32 + i];
      int code = g % 2 == 0 ? byte & 15 : byte >> 4;
      if (five_bits) code |= ((high[i] >> g) & 1) << 4;
      dst[g * 32 + i] = scale * static_cast<float>(code) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 int8 scales, d.
void dequantize_q6_k(const uint8_t* block, float* dst) {
  const float d = load_f16(block + 208);
  for (int g = 0; g < 8; ++g) {
    uint8_t codes[32];
    unpack_q6_k_group(block, g, codes);
    for (int i = 0; i < 32; ++i) {
      const auto sc = static_cast<int8_t>(block[192 + g * 2 + i / 16]);
      const float scale = d * static_cast<float>(sc);
      dst[g * 32 + i] = scale * static_cast<float>(codes[i] - 32);
    }
  }
}

}  // namespace

int32_t block_elements(WeightType type) {
  if (!is_quantised(type)) return 1;
  return layout_of(type).scale_elements;
}

int32_t block_bytes(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return 4;
    case WeightType::kF16:
    case WeightType::kBF16:
      return 2;
    case WeightType::kQ8_0:
      return 34;
    case WeightType::kQ4_0:
      return 18;
    case WeightType::kQ4_1:
      return 20;
    case WeightType::kQ4_K:
      return 144;
    case WeightType::kQ5_K:
      return 176;
    case WeightType::kQ6_K:
      return 210;
  }
  return 0;
}

float f16_to_f32(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000U) << 16;
  const uint32_t exponent = (value >> 10) & 31U;
  const uint32_t fraction = value & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

void unpack_k_scales(const uint8_t* packed, uint8_t* scales, uint8_t* mins) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 63;
    mins[i] = packed[i + 4] & 63;
    scales[i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6 << 4));
    mins[i + 4] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6 << 4));
  }
}

void unpack_q6_k_group(const uint8_t* block, int group, uint8_t* codes) {
  const int half = group / 4;     // 128 inputs share 64 + 32 bytes
  const int quarter = group % 4;  // of the half
  const uint8_t* low = block + half * 64 + (quarter % 2) * 32;
  const uint8_t* high = block + 128 + half * 32;
  for (int i = 0; i < 32; ++i) {
    const int nibble = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    codes[i] = static_cast<uint8_t>(nibble | (((high[i] >> (2 * quarter)) & 3) << 4));
  }
}

void dequantize_row(WeightType type, const void* src, int64_t elements, float* dst) {
  const auto* bytes = static_cast<const uint8_t*>(src);
  const int64_t step = block_elements(type);
  const int64_t step_bytes = block_bytes(type);
  for (int64_t i = 0; i < elements; i += step, bytes += step_bytes, dst += step) {
    switch (type) {
      case WeightType::kF32:
        std::memcpy(dst, bytes, sizeof(float));
        break;
      case WeightType::kF16:
        *dst = load_f16(bytes);
        break;
      case WeightType::kBF16:
        *dst = bf16_to_f32(load_u16(bytes));
        break;
      case WeightType::kQ8_0:
        dequantize_q8_0(bytes, dst);
        break;
      case WeightType::kQ4_0:
        dequantize_q4_0(bytes, dst);
        break;
      case WeightType::kQ4_1:
        dequantize_q4_1(bytes, dst);
        break;
      case WeightType::kQ4_K:
        dequantize_q45_k(bytes, false, dst);
        break;
      case WeightType::kQ5_K:
        dequantize_q45_k(bytes, true, dst);
        break;
      case WeightType::kQ6_K:
        dequantize_q6_k(bytes, dst);
        break;
    }
  }
}

void dequantize_packed_row(const PackedWeight& weight, int64_t row, float* dst) {
  const auto* data = static_cast<const std::byte*>(weight.data);
  if (!is_quantised(weight.type)) {
    dequantize_row(weight.type, data + row * weight.k * block_bytes(weight.type), weight.k, dst);
    return;
  }
  const PackedLayout layout = layout_of(weight.type);
  const std::byte* panel = data + row / kPanelColumns * panel_bytes(weight.type, weight.k);
  for (int64_t group = 0; group < weight.k / kGroup; ++group) {
    const GroupColumn column = read_group(weight.type, panel, weight.k, group, row % kPanelColumns);
    for (int64_t i = 0; i < kGroup; ++i) {
      const float value = column.scale[i / 16] * static_cast<float>(column.codes[i] - layout.zero);
      *dst++ = layout.has_min ? value + column.min : value;
    }
  }
}

}  // namespace encore::kernels
