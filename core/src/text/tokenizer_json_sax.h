// Reads tokenizer.json without building a tree of its two large parts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/status.h"
#include "text/vocabulary.h"

namespace encore {

// What the file holds: the vocabulary and merges flat, the rest as a tree.
struct TokenizerJson {  // NOLINT(bugprone-exception-escape): of nlohmann::json's own moves
  struct Text {
    uint32_t offset;
    uint32_t length;
  };

  nlohmann::json root;  // without model.vocab and model.merges
  std::string arena;    // texts of tokens and merges
  std::vector<Vocabulary::Entry> vocabulary;
  std::vector<std::pair<Text, Text>> merges;

  std::string_view text(Text at) const {
    return std::string_view(arena).substr(at.offset, at.length);
  }
};

// Errors: kDataLoss for malformed JSON, nesting deeper than 64, a file over 1 GiB, a vocabulary
// that is not an object of integers, or a merge that is not two texts.
Result<TokenizerJson> parse_tokenizer_json(std::string_view file);

}  // namespace encore
