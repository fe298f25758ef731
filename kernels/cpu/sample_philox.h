// Philox 4x32-10: a random number as a pure function of (key, counter).
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>

namespace encore::kernels {
namespace {  // compiled once for each instruction set: must not be shared between them

inline std::array<uint32_t, 4> philox_4x32_10(std::array<uint32_t, 4> counter,
                                              std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ULL * counter[0];
    const uint64_t b = 0xCD9E8D57ULL * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

// The uniform number in [0, 1) of a stream's position: 53 bits.
inline double uniform_of(uint64_t seed, int64_t position) {
  const auto counter = static_cast<uint64_t>(position);
  const std::array<uint32_t, 4> bits =
      philox_4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                     {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t both = bits[0] | (static_cast<uint64_t>(bits[1]) << 32);
  return static_cast<double>(both >> 11) * 0x1p-53;
}

}  // namespace
}  // namespace encore::kernels
