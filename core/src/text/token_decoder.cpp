#include "text/token_decoder.h"

#include <cctype>
#include <charconv>

#include "text/byte_alphabet.h"
#include "text/normalizer.h"

namespace encore {
namespace {

// Parses "<0xNN>". Returns false for any other token.
bool parse_byte_token(std::string_view token, char& byte) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return false;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return false;
  byte = static_cast<char>(value);
  return true;
}

}  // namespace

TokenDecoder::Progress TokenDecoder::begin(bool continues_text) const {
  return {!continues_text, continues_text ? 0 : strip_count};
}

void TokenDecoder::append(std::string_view token, Progress& progress, std::string& bytes) const {
  const bool first = std::exchange(progress.first_token, false);
  if (byte_level) {
    if (!append_bytes_of_alphabet(token, bytes)) bytes += token;
    return;
  }
  std::string text(token);
  if (first && !drop_in_first_token.empty()) text = replace_all(text, drop_in_first_token, "");
  for (const auto& [from, to] : replacements) text = replace_all(text, from, to);
  char byte = 0;
  if (byte_fallback && parse_byte_token(text, byte)) text.assign(1, byte);
  std::string_view rest = text;
  while (progress.strip_left > 0 && rest.starts_with(strip_text)) {
    rest.remove_prefix(strip_text.size());
    --progress.strip_left;
  }
  if (!rest.empty()) progress.strip_left = 0;
  bytes += rest;
}

}  // namespace encore
