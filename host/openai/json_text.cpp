#include "openai/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace encore {
namespace {

// What a byte needs: 0 nothing, 'u' a \u00XX escape, 'm' a look at the whole character, else the
// letter after the backslash.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> table{};
  for (size_t i = 0; i < 0x20; ++i) table[i] = 'u';
  for (size_t i = 0x80; i < 0x100; ++i) table[i] = 'm';
  table['\b'] = 'b';
  table['\t'] = 't';
  table['\n'] = 'n';
  table['\f'] = 'f';
  table['\r'] = 'r';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}

constexpr std::array<char, 256> kEscapes = make_escapes();

void append_code_unit(uint32_t unit, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out.append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kDigits[(unit >> shift) & 0xF]);
}

// The character at `position`, whole; returns its length in bytes.
size_t append_character(std::string_view text, size_t position, std::string& out) {
  const Utf8Step step = utf8_step(text, position);
  if (step.kind != Utf8Step::Kind::kCharacter) {
    out.append(kReplacementCharacter);
  } else if (step.code_point == 0x85 || step.code_point == 0x2028 || step.code_point == 0x2029) {
    append_code_unit(step.code_point, out);
  } else {
    out.append(text, position, step.length);
  }
  return step.length;
}

}  // namespace

void append_json_text(std::string_view text, std::string& out) {
  size_t plain = 0;  // where the bytes begin that can be copied as they are
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const char escape = kEscapes[byte];
    if (escape == 0) {
      ++i;
      continue;
    }
    out.append(text, plain, i - plain);
    if (escape == 'm') {
      i += append_character(text, i, out);
    } else if (escape == 'u') {
      append_code_unit(byte, out);
      ++i;
    } else {
      out.push_back('\\');
      out.push_back(escape);
      ++i;
    }
    plain = i;
  }
  out.append(text, plain, text.size() - plain);
}

void append_json_string(std::string_view text, std::string& out) {
  out.push_back('"');
  append_json_text(text, out);
  out.push_back('"');
}

void append_json_integer(int64_t value, std::string& out) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

void append_json_logprob(float value, std::string& out) {
  if (!std::isfinite(value)) value = -9999.0F;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view text(digits.data(), end - digits.data());
  out.append(text);
  if (text.find_first_of(".e") == std::string_view::npos) out.append(".0");
}

}  // namespace encore
