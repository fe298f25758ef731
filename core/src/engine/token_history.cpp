#include "engine/token_history.h"

#include <bit>

namespace encore {

void TokenHistory::reset(std::span<const int32_t> prompt, int32_t max_output) {
  const size_t capacity = prompt.size() + static_cast<size_t>(max_output);
  entries_.clear();
  entries_.reserve(capacity);
  table_.assign(std::bit_ceil(2 * capacity + 1), -1);
  for (const int32_t token : prompt) ++find_or_insert(token).in_prompt;
}

TokenCount& TokenHistory::find_or_insert(int32_t token) {
  const size_t mask = table_.size() - 1;
  // Fibonacci hashing spreads the runs of neighbouring ids that text is full of.
  size_t slot = (static_cast<uint32_t>(token) * 2654435769U) & mask;
  while (table_[slot] >= 0) {
    TokenCount& entry = entries_[table_[slot]];
    if (entry.token == token) return entry;
    slot = (slot + 1) & mask;
  }
  table_[slot] = static_cast<int32_t>(entries_.size());
  return entries_.emplace_back(TokenCount{token, 0, 0});
}

}  // namespace encore
