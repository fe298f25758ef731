// SHA-256 (FIPS 180-4), to compare a plugin's file with the checksum in a configuration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "encore/status.h"

namespace encore {

// update() any number of times, then hex_digest() once. One thread.
class Sha256 {
 public:
  void update(std::string_view bytes);
  // 64 lower-case hexadecimal digits.
  std::string hex_digest();

 private:
  static constexpr size_t kChunkBytes = 64;

  void take(const uint8_t* chunk);

  std::array<uint32_t, 8> state_ = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                    0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  std::array<uint8_t, kChunkBytes> pending_ = {};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

std::string sha256_of_text(std::string_view text);

// Errors: kNotFound if it cannot be opened, kDataLoss if it cannot be read.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace encore
