// The layout of packed panels: internal to the CPU kernels.
//
// A panel holds 16 output features. First the codes of all 32-input groups in order, then all the
// scales, then padding to 64 bytes. Codes of a group, as 64-byte vectors whose byte 4 * c + j
// belongs to output c and input 4 * q + j of the group ("quad" q of 0..7):
//
//   Q8_0           8 vectors, one a quad: code = int8 + 128
//   4-bit          4 vectors: low nibbles are quads 0..3, high nibbles quads 4..7
//   Q5_K, then     1 vector: bit q is bit 4 of quad q's code
//   Q6_K, then     2 vectors: bits 2i, 2i + 1 of the first are bits 4, 5 of quad i's code; of the
//                  second, of quad i + 4's
//
// Scales, each entry an array of 16, one an output:
//   Q8_0, Q4_0     a group: d
//   Q4_1           a group: d, m
//   Q4_K, Q5_K     256 inputs: d, -dmin, then 8 times { sc uint8, mn uint8 }
//   Q6_K           256 inputs: d, then 16 times sc int8
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant.h"

namespace encore::kernels {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kGroup = 32;        // inputs that share an activation scale
inline constexpr int64_t kSuperBlock = 256;  // inputs of a K-quant's block

struct PackedLayout {
  int32_t code_bytes;      // of a panel's group
  int32_t scale_bytes;     // of a panel's `scale_elements` inputs
  int32_t scale_elements;  // 32 or 256
  int32_t code_bits;
  int32_t zero;
  int32_t scale_group;  // inputs that share a weight scale: 32 or 16
  bool has_min;
};

static constexpr PackedLayout layout_of(WeightType type) {
  switch (type) {
    case WeightType::kQ8_0:
      return {512, 32, 32, 8, 128, 32, false};
    case WeightType::kQ4_0:
      return {256, 32, 32, 4, 8, 32, false};
    case WeightType::kQ4_1:
      return {256, 64, 32, 4, 0, 32, true};
    case WeightType::kQ4_K:
      return {256, 320, 256, 4, 0, 32, true};
    case WeightType::kQ5_K:
      return {320, 320, 256, 5, 0, 32, true};
    case WeightType::kQ6_K:
      return {384, 288, 256, 6, 32, 16, false};
    default:
      return {};
  }
}

static constexpr int64_t panel_code_bytes(WeightType type, int64_t k) {
  return k / kGroup * layout_of(type).code_bytes;
}

static constexpr int64_t panel_bytes(WeightType type, int64_t k) {
  const PackedLayout layout = layout_of(type);
  if (layout.code_bytes == 0) return 0;
  const int64_t bytes = panel_code_bytes(type, k) + k / layout.scale_elements * layout.scale_bytes;
  return (bytes + 63) / 64 * 64;
}

// The 6-bit scales and mins of a Q4_K or Q5_K block's 8 groups, from its 12 bytes.
void unpack_k_scales(const uint8_t* packed, uint8_t* scales, uint8_t* mins);

// The 32 codes of group `group` of a Q6_K block.
void unpack_q6_k_group(const uint8_t* block, int group, uint8_t* codes);

// One column of one group of a panel, in plain terms: the specification of the layout.
struct GroupColumn {
  uint8_t codes[kGroup];
  float scale[2];  // of inputs 0..15 and 16..31; equal unless scale_group is 16
  float min;       // 0 unless the format has one
};
GroupColumn read_group(WeightType type, const std::byte* panel, int64_t k, int64_t group,
                       int64_t column);

}  // namespace encore::kernels
