// The KV cache in device memory: pages of one layer, one after another.
//
//   page:  K [num_kv_heads, page_size, head_dim], then V of the same shape
//
// so that one head's keys of one page are contiguous: page_size * head_dim elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

struct KvLayout {
  Element element = Element::kBF16;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t page_size = 0;  // tokens; 16, 32 or 64

  // Elements of one head's keys (or values) of a page; of all heads' keys; of the page.
  constexpr int64_t head_elements() const { return int64_t{page_size} * head_dim; }
  constexpr int64_t half_elements() const { return num_kv_heads * head_elements(); }
  constexpr int64_t page_bytes() const { return 2 * half_elements() * element_bytes(element); }
};

// Pages of one layer. Zeroed once when made: rows that no token has written are multiplied by 0.
struct KvPages {
  std::byte* data = nullptr;
  int32_t num_pages = 0;  // the sink page included, which is the last
  KvLayout layout;
};

}  // namespace encore::gpu
