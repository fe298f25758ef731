// Classes of characters that tokenizer files refer to.
#pragma once

#include <cstdint>

namespace encore {

bool is_white_space(uint32_t code_point);     // Unicode White_Space
bool is_word_character(uint32_t code_point);  // letters, marks, digits, connectors: \w

}  // namespace encore
