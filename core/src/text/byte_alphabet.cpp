#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace encore {
namespace {

constexpr std::array<int16_t, kByteAlphabetEnd> invert_alphabet() {
  std::array<int16_t, kByteAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kByteAlphabet[static_cast<size_t>(byte)]] = byte;
  return bytes;
}
constexpr std::array<int16_t, kByteAlphabetEnd> kByteOfCodePoint = invert_alphabet();

}  // namespace

bool append_bytes_of_alphabet(std::string_view text, std::string& out) {
  const size_t start = out.size();
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    const bool known = step.kind == Utf8Step::Kind::kCharacter &&
                       step.code_point < kByteAlphabetEnd && kByteOfCodePoint[step.code_point] >= 0;
    if (!known) {
      out.resize(start);
      return false;
    }
    out.push_back(static_cast<char>(kByteOfCodePoint[step.code_point]));
    i += step.length;
  }
  return true;
}

}  // namespace encore
