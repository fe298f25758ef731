// The padded sizes that captures serve.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "encore/status.h"

namespace encore {

// A sorted list of distinct sizes from 1 to a maximum, the maximum always among them, so that no
// legal batch is too large for the largest bucket. Immutable; any thread.
class Buckets {
 public:
  Buckets() = default;

  // Sorts and deduplicates `sizes`, drops those above `maximum`, and adds `maximum`.
  // Errors: kInvalidArgument if maximum < 1 or a size is below 1.
  static Result<Buckets> create(std::span<const int32_t> sizes, int32_t maximum) {
    if (maximum < 1) {
      return invalid_argument("bucket maximum is " + std::to_string(maximum) +
                              "; it must be at least 1");
    }
    Buckets buckets;
    for (const int32_t size : sizes) {
      if (size < 1) {
        return invalid_argument("bucket size is " + std::to_string(size) +
                                "; every size must be at least 1");
      }
      if (size < maximum) buckets.sizes_.push_back(size);
    }
    buckets.sizes_.push_back(maximum);
    std::sort(buckets.sizes_.begin(), buckets.sizes_.end());
    buckets.sizes_.erase(std::unique(buckets.sizes_.begin(), buckets.sizes_.end()),
                         buckets.sizes_.end());
    return buckets;
  }

  // Ascending.
  std::span<const int32_t> sizes() const { return sizes_; }
  bool empty() const { return sizes_.empty(); }
  int32_t maximum() const { return sizes_.empty() ? 0 : sizes_.back(); }

  // Index of the smallest bucket that holds `size`, or of the equal one if `padding` is false;
  // -1 if there is none.
  int32_t find(int32_t size, bool padding) const {
    const auto found = std::lower_bound(sizes_.begin(), sizes_.end(), size);
    if (size < 1 || found == sizes_.end() || (!padding && *found != size)) return -1;
    return static_cast<int32_t>(found - sizes_.begin());
  }

 private:
  std::vector<int32_t> sizes_;
};

// 1, 2, 4, 8, then steps of 8 to 64, of 16 to 256, of 32 beyond: padding wastes at most a fifth
// where it matters. Ends at `max_requests`.
inline std::vector<int32_t> default_decode_buckets(int32_t max_requests) {
  std::vector<int32_t> sizes;
  for (int32_t size = 1; size < max_requests;) {
    sizes.push_back(size);
    if (size < 8) {
      size *= 2;
    } else if (size < 64) {
      size += 8;
    } else if (size < 256) {
      size += 16;
    } else {
      size += 32;
    }
  }
  sizes.push_back(std::max(max_requests, 1));
  return sizes;
}

// Powers of two from 16, with the midpoint between each pair from 256 on. Ends at `max_tokens`.
inline std::vector<int32_t> default_prefill_buckets(int32_t max_tokens) {
  std::vector<int32_t> sizes;
  for (int32_t size = 16; size < max_tokens; size *= 2) {
    sizes.push_back(size);
    if (size >= 256 && size + size / 2 < max_tokens) sizes.push_back(size + size / 2);
    if (size > INT32_MAX / 2) break;
  }
  sizes.push_back(std::max(max_tokens, 1));
  return sizes;
}

}  // namespace encore
