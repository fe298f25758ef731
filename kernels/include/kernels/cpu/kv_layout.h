// Where keys and values lie inside a KV cache page.
//
// A page holds `page_size` positions of one layer, all KV heads, keys then values, and is
// contiguous, so copying a page is one memcpy of page_bytes():
//
//   keys    [num_kv_heads, head_dim, page_size]   transposed: 16 positions are 16 SIMD lanes
//   values  [num_kv_heads, page_size, head_dim]
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant.h"

namespace encore::kernels {

struct KvLayout {
  WeightType type;  // kF32, kF16 or kBF16
  int32_t num_kv_heads;
  int32_t head_dim;   // a multiple of 8, at most 256
  int32_t page_size;  // 16, 32 or 64

  int64_t element_bytes() const { return type == WeightType::kF32 ? 4 : 2; }
  // Elements of one head's keys (or values) in a page, and of all heads' keys.
  int64_t head_elements() const { return static_cast<int64_t>(head_dim) * page_size; }
  int64_t half_elements() const { return num_kv_heads * head_elements(); }
  int64_t page_bytes() const { return 2 * half_elements() * element_bytes(); }

  // Element offsets from the start of a page; `offset` is the position modulo page_size.
  int64_t key_offset(int32_t kv_head, int32_t dim, int32_t offset) const {
    return kv_head * head_elements() + static_cast<int64_t>(dim) * page_size + offset;
  }
  int64_t value_offset(int32_t kv_head, int32_t offset, int32_t dim) const {
    return half_elements() + kv_head * head_elements() + static_cast<int64_t>(offset) * head_dim +
           dim;
  }

  // True if kernels can work on it.
  bool valid() const {
    const bool type_ok =
        type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBF16;
    return type_ok && num_kv_heads > 0 && head_dim > 0 && head_dim % 8 == 0 && head_dim <= 256 &&
           (page_size == 16 || page_size == 32 || page_size == 64);
  }
};

// One layer's pages. Page i starts at pages + i * page_stride_bytes.
struct KvPages {
  std::byte* pages;           // aligned to 64 bytes
  int64_t page_stride_bytes;  // a multiple of 64, at least page_bytes()
  KvLayout layout;
};

}  // namespace encore::kernels
