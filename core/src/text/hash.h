// A seeded hash for the tokenizer's tables.
#pragma once

#include <cstdint>

namespace encore {

// Drawn once per process, so that no tokenizer file can be made to collide.
uint64_t process_hash_seed();

inline uint64_t mix_hash(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}

}  // namespace encore
