// From the spelling of tokens back to the bytes they stand for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace encore {

// How a tokenizer spells text. Immutable; any thread.
struct TokenDecoder {
  bool byte_level = false;     // characters stand for bytes, as GPT-2 has it
  bool byte_fallback = false;  // <0xNN> stands for one byte
  std::vector<std::pair<std::string, std::string>> replacements;  // applied to each token, in order
  std::string strip_text;           // removed from the start of the whole text ...
  size_t strip_count = 0;           // ... at most so often
  std::string drop_in_first_token;  // removed wherever the first token has it; may be empty

  // Where a decode stands.
  struct Progress {
    bool first_token = true;
    size_t strip_left = 0;
  };
  // A text's start, or, for text that goes on after other text, where nothing is stripped.
  Progress begin(bool continues_text) const;

  // Appends the bytes of one more token.
  void append(std::string_view token, Progress& progress, std::string& bytes) const;
};

}  // namespace encore
