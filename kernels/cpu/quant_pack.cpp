// Packing of quantised weights into panels, and reading them back.
#include <algorithm>
#include <cstring>

#include "quant_layout.h"

namespace encore::kernels {
namespace {

uint32_t load_u32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void store_u32(std::byte* p, uint32_t value) { std::memcpy(p, &value, sizeof(value)); }

void copy_f16(const uint8_t* src, std::byte* scales, int64_t column, uint8_t flip_sign = 0) {
  scales[2 * column] = static_cast<std::byte>(src[0]);
  scales[2 * column + 1] = static_cast<std::byte>(src[1] ^ flip_sign);
}

// Writes one column's 16 bytes of nibbles: already low = inputs 0..15, high = 16..31, as in GGUF's
// 32-element blocks, so the quads are copied four bytes at a time.
void interleave_nibbles(const uint8_t* nibbles, std::byte* codes, int64_t column) {
  for (int v = 0; v < 4; ++v) store_u32(codes + v * 64 + column * 4, load_u32(nibbles + v * 4));
}

void join_nibbles(const uint8_t* codes, uint8_t* nibbles) {
  for (int i = 0; i < 16; ++i) {
    nibbles[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] << 4));
  }
}

struct PanelWriter {
  WeightType type;
  std::byte* panel;
  int64_t k;

  std::byte* codes(int64_t group) const { return panel + group * layout_of(type).code_bytes; }
  std::byte* scales(int64_t index) const {
    return panel + panel_code_bytes(type, k) + index * layout_of(type).scale_bytes;
  }
};

void pack_q8_0(const PanelWriter& w, const uint8_t* row, int64_t column) {
  for (int64_t g = 0; g < w.k / kGroup; ++g, row += 34) {
    copy_f16(row, w.scales(g), column);
    std::byte* codes = w.codes(g) + column * 4;
    for (int v = 0; v < 8; ++v) {
      store_u32(codes + v * 64, load_u32(row + 2 + v * 4) ^ 0x80808080U);
    }
  }
}

void pack_q4_0(const PanelWriter& w, const uint8_t* row, int64_t column) {
  for (int64_t g = 0; g < w.k / kGroup; ++g, row += 18) {
    copy_f16(row, w.scales(g), column);
    interleave_nibbles(row + 2, w.codes(g), column);
  }
}

void pack_q4_1(const PanelWriter& w, const uint8_t* row, int64_t column) {
  for (int64_t g = 0; g < w.k / kGroup; ++g, row += 20) {
    copy_f16(row, w.scales(g), column);
    copy_f16(row + 2, w.scales(g) + 32, column);
    interleave_nibbles(row + 4, w.codes(g), column);
  }
}

void pack_q45_k_scales(const PanelWriter& w, const uint8_t* block, int64_t index, int64_t column) {
  std::byte* scales = w.scales(index);
  copy_f16(block, scales, column);
  copy_f16(block + 2, scales + 32, column, 0x80);
  uint8_t sc[8];
  uint8_t mn[8];
  unpack_k_scales(block + 4, sc, mn);
  for (int g = 0; g < 8; ++g) {
    scales[64 + g * 32 + column] = static_cast<std::byte>(sc[g]);
    scales[64 + g * 32 + 16 + column] = static_cast<std::byte>(mn[g]);
  }
}

void pack_q45_k(const PanelWriter& w, const uint8_t* row, int64_t column) {
  const bool five_bits = w.type == WeightType::kQ5_K;
  for (int64_t block = 0; block < w.k / kSuperBlock; ++block, row += five_bits ? 176 : 144) {
    pack_q45_k_scales(w, row, block, column);
    const uint8_t* nibbles = row + (five_bits ? 48 : 16);
    for (int g = 0; g < 8; ++g) {
      uint8_t codes[32];
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = nibbles[g / 2 * 32 + i];
        codes[i] = g % 2 == 0 ? byte & 15 : byte >> 4;
      }
      uint8_t joined[16];
      join_nibbles(codes, joined);
      std::byte* dst = w.codes(block * 8 + g);
      interleave_nibbles(joined, dst, column);
      if (!five_bits) continue;
      for (int j = 0; j < 4; ++j) {
        unsigned bits = 0;
        for (int q = 0; q < 8; ++q) bits |= ((row[16 + q * 4 + j] >> g) & 1U) << q;
        dst[256 + column * 4 + j] = static_cast<std::byte>(bits);
      }
    }
  }
}

void pack_q6_k(const PanelWriter& w, const uint8_t* row, int64_t column) {
  for (int64_t block = 0; block < w.k / kSuperBlock; ++block, row += 210) {
    std::byte* scales = w.scales(block);
    copy_f16(row + 208, scales, column);
    for (int i = 0; i < 16; ++i) scales[32 + i * 16 + column] = std::byte{row[192 + i]};
    for (int g = 0; g < 8; ++g) {
      uint8_t codes[32];
      unpack_q6_k_group(row, g, codes);
      uint8_t joined[16];
      join_nibbles(codes, joined);
      std::byte* dst = w.codes(block * 8 + g);
      interleave_nibbles(joined, dst, column);
      for (int j = 0; j < 4; ++j) {
        unsigned bits[2] = {0, 0};
        for (int q = 0; q < 8; ++q) bits[q / 4] |= (codes[q * 4 + j] >> 4) << (2 * (q % 4));
        dst[256 + column * 4 + j] = static_cast<std::byte>(bits[0]);
        dst[320 + column * 4 + j] = static_cast<std::byte>(bits[1]);
      }
    }
  }
}

void pack_column(const PanelWriter& writer, const uint8_t* row, int64_t column) {
  switch (writer.type) {
    case WeightType::kQ8_0:
      return pack_q8_0(writer, row, column);
    case WeightType::kQ4_0:
      return pack_q4_0(writer, row, column);
    case WeightType::kQ4_1:
      return pack_q4_1(writer, row, column);
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return pack_q45_k(writer, row, column);
    case WeightType::kQ6_K:
      return pack_q6_k(writer, row, column);
    default:
      return;
  }
}

uint8_t read_code(WeightType type, const uint8_t* codes, int quad, int64_t byte) {
  if (type == WeightType::kQ8_0) return codes[quad * 64 + byte];
  const uint8_t pair = codes[quad % 4 * 64 + byte];
  int code = quad < 4 ? pair & 15 : pair >> 4;
  if (type == WeightType::kQ5_K) code |= ((codes[256 + byte] >> quad) & 1) << 4;
  if (type == WeightType::kQ6_K) {
    code |= ((codes[256 + quad / 4 * 64 + byte] >> (2 * (quad % 4))) & 3) << 4;
  }
  return static_cast<uint8_t>(code);
}

float read_f16(const uint8_t* scales, int64_t column) {
  uint16_t value;
  std::memcpy(&value, scales + 2 * column, sizeof(value));
  return f16_to_f32(value);
}

void read_scales(WeightType type, const uint8_t* scales, int64_t group, int64_t column,
                 GroupColumn* out) {
  const float d = read_f16(scales, column);
  out->scale[0] = out->scale[1] = d;
  out->min = 0.0F;
  const int64_t sub = group % 8;
  if (type == WeightType::kQ4_1) {
    out->min = read_f16(scales + 32, column);
  } else if (type == WeightType::kQ4_K || type == WeightType::kQ5_K) {
    const uint8_t* pair = scales + 64 + sub * 32;
    out->scale[0] = out->scale[1] = d * static_cast<float>(pair[column]);
    out->min = read_f16(scales + 32, column) * static_cast<float>(pair[16 + column]);
  } else if (type == WeightType::kQ6_K) {
    for (int half = 0; half < 2; ++half) {
      const auto sc = static_cast<int8_t>(scales[32 + (sub * 2 + half) * 16 + column]);
      out->scale[half] = d * static_cast<float>(sc);
    }
  }
}

}  // namespace

size_t packed_bytes(WeightType type, int64_t n, int64_t k) {
  if (!is_quantised(type)) return static_cast<size_t>(n * k * block_bytes(type));
  const int64_t panels = (n + kPanelColumns - 1) / kPanelColumns;
  return static_cast<size_t>(panels * panel_bytes(type, k));
}

void pack_weight(WeightType type, const void* src, int64_t n, int64_t k, int64_t row_begin,
                 int64_t row_end, void* dst) {
  const int64_t source_row_bytes = k / block_elements(type) * block_bytes(type);
  const auto* rows = static_cast<const uint8_t*>(src);
  auto* out = static_cast<std::byte*>(dst);
  if (!is_quantised(type)) {
    std::memcpy(out + row_begin * source_row_bytes, rows + row_begin * source_row_bytes,
                static_cast<size_t>((row_end - row_begin) * source_row_bytes));
    return;
  }
  const int64_t bytes = panel_bytes(type, k);
  for (int64_t row = row_begin; row < row_end; row += kPanelColumns) {
    const PanelWriter writer{type, out + row / kPanelColumns * bytes, k};
    const int64_t columns = std::min(kPanelColumns, n - row);
    if (columns < kPanelColumns) std::memset(writer.panel, 0, static_cast<size_t>(bytes));
    for (int64_t c = 0; c < columns; ++c) {
      pack_column(writer, rows + (row + c) * source_row_bytes, c);
    }
  }
}

GroupColumn read_group(WeightType type, const std::byte* panel, int64_t k, int64_t group,
                       int64_t column) {
  const PackedLayout layout = layout_of(type);
  const auto* bytes = reinterpret_cast<const uint8_t*>(panel);
  const uint8_t* codes = bytes + group * layout.code_bytes;
  const uint8_t* scales = bytes + panel_code_bytes(type, k) +
                          group * kGroup / layout.scale_elements * layout.scale_bytes;
  GroupColumn out;
  for (int i = 0; i < kGroup; ++i) {
    out.codes[i] = read_code(type, codes, i / 4, column * 4 + i % 4);
  }
  read_scales(type, scales, group, column, &out);
  return out;
}

}  // namespace encore::kernels
