// Token ids to text, one at a time, in whole characters.
#pragma once

#include <cstdint>
#include <string>

#include "text/token_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace encore {

// Joined, the texts of push() and finish() equal Tokenizer::decode of all ids. Each text is whole
// characters; bytes of a character that is not complete are held back. U+FFFD appears where tokens
// spell malformed UTF-8, and once at an end that cuts a character.
// One thread at a time. Borrows the tokenizer, which must outlive it.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

  // The text that is certain once `id` has come; often empty in the middle of a character.
  std::string push(int32_t id);

  // What was held back. Resets to the start of a text, with the same options.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  TokenDecoder::Progress progress_;
  Utf8Assembler assembler_;
};

}  // namespace encore
