// When each live request's latest token came, for the gaps between tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/request.h"

namespace encore {

// A hash table with open addressing in one array. It allocates only when more requests are live
// than ever before. One thread.
class TokenTimes {
 public:
  TokenTimes();

  // Replaces the time of `request` by `us` and returns the one before, or -1 if there was none.
  // REQUIRES: request != 0, us >= 0.
  int64_t exchange(RequestId request, int64_t us);

  // Forgets it, and returns its time, or -1 if there was none.
  int64_t take(RequestId request);

  size_t size() const { return size_; }

 private:
  struct Slot {
    RequestId request = 0;  // 0: free
    int64_t us = -1;
  };

  size_t home(RequestId request) const;
  size_t find(RequestId request) const;  // its slot, or the free one where it belongs
  void grow();

  std::vector<Slot> slots_;  // a power of two; at most half are taken
  size_t size_ = 0;
};

}  // namespace encore
