// UTF-8: stepping through untrusted bytes, and replacing what is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace encore {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// One character, or one malformed stretch, at a position of a text.
struct Utf8Step {
  enum class Kind { kCharacter, kMalformed, kCut };

  Kind kind;
  uint32_t length;      // bytes, at least 1
  uint32_t code_point;  // U+FFFD unless kind is kCharacter
};

// The step at `position`. A malformed stretch is a maximal subpart (Unicode 15, section 3.9): the
// longest prefix of a well-formed character, or one byte. kCut is such a prefix that the end of the
// text cuts short; more bytes could complete it.
// REQUIRES: position < text.size().
Utf8Step utf8_step(std::string_view text, size_t position);

bool is_valid_utf8(std::string_view text);

// `text` with every malformed stretch replaced by U+FFFD, as Python's bytes.decode("utf-8",
// "replace") does.
std::string replace_malformed_utf8(std::string_view text);

void append_utf8(uint32_t code_point, std::string& out);

// Turns bytes that arrive in chunks into whole characters. Joined output equals
// replace_malformed_utf8 of the joined input. One thread at a time.
class Utf8Assembler {
 public:
  // Text that no later byte can change.
  std::string push(std::string_view bytes);

  // What was held back: one U+FFFD if the input ended inside a character. Resets.
  std::string finish();

 private:
  std::string held_;  // at most 3 bytes between calls
};

}  // namespace encore
