// The tokens a request already has, counted for penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/forward_batch.h"

namespace encore {

// One entry per distinct token, kept up to date token by token, in order of first appearance. One
// thread at a time.
class TokenHistory {
 public:
  // Counts `prompt` (empty if only the reply is penalised) and makes room for `max_output` more
  // tokens, so that add_output never allocates.
  void reset(std::span<const int32_t> prompt, int32_t max_output);

  // REQUIRES: at most max_output calls since reset().
  void add_output(int32_t token) { ++find_or_insert(token).in_output; }

  std::span<const TokenCount> entries() const { return entries_; }

 private:
  TokenCount& find_or_insert(int32_t token);

  std::vector<TokenCount> entries_;
  std::vector<int32_t> table_;  // open addressing: index into entries_, or -1; a power of two
};

}  // namespace encore
