// GPT-2's byte alphabet: every byte as a printable character.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace encore {

inline constexpr uint32_t kByteAlphabetEnd = 0x144;  // code points below this may stand for a byte

// The code point that stands for each byte. Printable Latin-1 stands for itself; the other 68 bytes
// take U+0100 upwards, in order.
constexpr std::array<uint32_t, 256> make_byte_alphabet() {
  std::array<uint32_t, 256> alphabet{};
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE);
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}
inline constexpr std::array<uint32_t, 256> kByteAlphabet = make_byte_alphabet();

// Appends the bytes that `text` stands for. Returns false, and appends nothing, if a character of
// it stands for none.
bool append_bytes_of_alphabet(std::string_view text, std::string& out);

}  // namespace encore
