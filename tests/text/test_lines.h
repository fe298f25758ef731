// Lines of text that tokenizers find hard, the same on every machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace encore {

inline constexpr size_t kNumTestLines = 24000;

// Code, numbers, many scripts, emoji, control characters, malformed UTF-8, markup of control tokens
// and long runs. Lines may hold any byte, newlines included. The first 5,136 sweep U+0000 to
// U+32410; the rest are drawn by a fixed generator.
std::vector<std::string> make_test_lines();

}  // namespace encore
