// How large the KV cache may be: what a device's memory has left when all else has its part.
#pragma once

#include <cstdint>

#include "encore/backend.h"

namespace encore {

struct KvBudget {
  DeviceMemory memory;    // now: weights loaded, neither KV cache nor runners made
  double fraction = 0.9;  // of the device's memory that may be in use in the end
  MemoryPlan plan;
  int64_t least_pages = 1;  // one request of the longest context
  int64_t most_pages = 1;   // all requests of the longest context: more would never be used
};

struct KvSize {
  int64_t pages = 0;             // at most most_pages; may be below least_pages, or 0
  double needed_fraction = 0.0;  // the smallest fraction with room for least_pages
};

// Pure arithmetic. REQUIRES: plan.kv_page_bytes and memory.total_bytes are positive.
KvSize size_kv(const KvBudget& budget);

}  // namespace encore
