// Text that crosses the boundary: bounded, and valid UTF-8 whatever the other side sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace encore::sdk {

inline constexpr size_t kMaxTextBytes = 4096;  // longer text is cut

// Length of the valid UTF-8 sequence at the start of `text`, or 0 (RFC 3629: no surrogates, no
// overlong forms, nothing above U+10FFFF).
inline size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// A copy with every byte that is not part of valid UTF-8, and every NUL, replaced by U+FFFD.
inline std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = text[0] == '\0' ? 0 : utf8_sequence_length(text);
    if (length == 0) {
      result += "\xEF\xBF\xBD";
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

// `text` cut to at most `limit` bytes, not inside a character.
inline std::string_view cut_utf8(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// Text that came across as pointer and length. A null pointer is empty.
inline std::string text_from_abi(const char* data, uint64_t size, size_t limit = kMaxTextBytes) {
  if (data == nullptr) return {};
  const std::string_view text(data, static_cast<size_t>(std::min<uint64_t>(size, limit + 4)));
  return valid_utf8(cut_utf8(text, limit));
}

// Fills a fixed array of a struct; cuts what does not fit.
inline void text_to_array(std::string_view text, char* array, size_t capacity, uint32_t* size) {
  const std::string_view cut = cut_utf8(text, capacity);
  std::copy(cut.begin(), cut.end(), array);
  *size = static_cast<uint32_t>(cut.size());
}

}  // namespace encore::sdk
