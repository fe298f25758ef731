#include "weight_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace encore::check {
namespace {

constexpr size_t kBlock = 32;  // elements of a q8_0 or q4_0 block
constexpr size_t kHalfBlock = kBlock / 2;

uint8_t to_byte(int code) { return static_cast<uint8_t>(code & 0xFF); }

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <typename T>
T read_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Scale as f16, then 32 signed bytes.
void encode_q8_0(std::span<const float> block, std::vector<std::byte>& bytes) {
  float largest = 0.0F;
  for (const float value : block) largest = std::max(largest, std::fabs(value));
  const uint16_t scale = to_f16(largest / 127.0F);
  const float step = from_f16(scale);
  append(bytes, scale);
  for (const float value : block) {
    const float code = step > 0.0F ? std::nearbyint(value / step) : 0.0F;
    append(bytes, to_byte(static_cast<int>(std::clamp(code, -127.0F, 127.0F))));
  }
}

// Scale as f16, then 16 bytes: element i in the low half of byte i, element 16 + i in the high
// one, each less 8.
void encode_q4_0(std::span<const float> block, std::vector<std::byte>& bytes) {
  float extreme = 0.0F;
  for (const float value : block) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  const uint16_t scale = to_f16(extreme / -8.0F);
  const float step = from_f16(scale);
  append(bytes, scale);
  const auto code = [&](float value) {
    const float steps = step != 0.0F ? std::nearbyint(value / step) : 0.0F;
    return static_cast<int>(std::clamp(steps + 8.0F, 0.0F, 15.0F));
  };
  for (size_t i = 0; i < kHalfBlock; ++i) {
    append(bytes, to_byte(code(block[i]) | (code(block[i + kHalfBlock]) << 4)));
  }
}

}  // namespace

uint16_t to_f16(float value) {
  const bool negative = std::signbit(value);
  const auto sign = static_cast<uint16_t>(negative ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520.0) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude == 0.0) return sign;
  // The spacing of f16 values is 2^(exponent - 10), and 2^-24 below the normal ones.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A carry into the exponent comes out right, because the next value follows in the encoding.
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps));
}

float from_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  double magnitude = 0.0;
  if (exponent == 0x1F) {
    magnitude = fraction == 0 ? HUGE_VAL : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }

std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
  std::vector<std::byte> bytes;
  if (is_quantised(dtype)) {
    for (size_t at = 0; at + kBlock <= values.size(); at += kBlock) {
      const std::span<const float> block = values.subspan(at, kBlock);
      dtype == DType::kQ8_0 ? encode_q8_0(block, bytes) : encode_q4_0(block, bytes);
    }
    return bytes;
  }
  for (const float value : values) {
    if (dtype == DType::kF32) append(bytes, value);
    if (dtype == DType::kF16) append(bytes, to_f16(value));
    if (dtype == DType::kBF16) append(bytes, to_bf16(value));
  }
  return bytes;
}

std::vector<float> decode(DType dtype, std::span<const std::byte> bytes) {
  const auto block_bytes = static_cast<size_t>(dtype_info(dtype).block_bytes);
  std::vector<float> values;
  for (size_t at = 0; at + block_bytes <= bytes.size(); at += block_bytes) {
    if (dtype == DType::kF32) values.push_back(read_at<float>(bytes, at));
    if (dtype == DType::kF16) values.push_back(from_f16(read_at<uint16_t>(bytes, at)));
    if (dtype == DType::kBF16) values.push_back(from_bf16(read_at<uint16_t>(bytes, at)));
    if (!is_quantised(dtype)) continue;
    const float step = from_f16(read_at<uint16_t>(bytes, at));
    const std::span<const std::byte> codes = bytes.subspan(at + 2, block_bytes - 2);
    if (dtype == DType::kQ8_0) {
      for (const std::byte code : codes) {
        values.push_back(step * static_cast<float>(static_cast<int8_t>(code)));
      }
      continue;
    }
    for (const int shift : {0, 4}) {
      for (const std::byte code : codes) {
        const int nibble = (std::to_integer<int>(code) >> shift) & 0xF;
        values.push_back(step * static_cast<float>(nibble - 8));
      }
    }
  }
  return values;
}

}  // namespace encore::check
