// Bounds on what a tokenizer file's rules may do to one text.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "encore/status.h"

namespace encore {

// Time for matching patterns, 2 s and 5 us a byte of the text, and growth of the text, 1 KiB and 16
// times its size, whatever the pieces it is cut into. Time is the thread's own, from the
// constructor on. One thread.
class TextBudget {
 public:
  explicit TextBudget(size_t text_bytes);

  // Counts one match of a pattern; false once the time is over. PCRE2's own limit holds for a match
  // alone, and a text may have as many as bytes.
  bool spend_match();

  // Counts that a piece of `from_bytes` becomes one of `to_bytes`.
  // Errors: kInvalidArgument if the text has grown too far.
  Status grow(size_t from_bytes, size_t to_bytes);

 private:
  size_t growth_left_;
  std::chrono::nanoseconds end_;
  std::chrono::nanoseconds last_tick_{};
  uint32_t matches_ = 0;
};

}  // namespace encore
