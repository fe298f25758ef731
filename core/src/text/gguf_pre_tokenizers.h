// The pre-tokenizers that GGUF files name instead of describing.
#pragma once

#include <string_view>

#include "encore/status.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace encore {

struct NamedPreTokenizer {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says
};

// For a byte-level model's tokenizer.ggml.pre.
// Errors: kUnimplemented, listing the known names.
Result<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

}  // namespace encore
