// Prompts to token ids, away from the server's thread: chat templates, tokenizing, detokenizing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/status.h"
#include "openai/generation_request.h"

namespace encore {

// Every function may be called from any thread, at once.
class TextService {
 public:
  virtual ~TextService() = default;

  // The ids of a prompt. Control tokens spelled in it stay text, but for those that the template
  // itself writes. Ids are returned as they are.
  // Errors: kInvalidArgument, fit for the caller, for a template that refuses the conversation, or
  // a conversation although the model has no template.
  virtual Result<std::vector<int32_t>> encode(const PromptInput& prompt,
                                              bool add_special_tokens) const = 0;
  // Special tokens are spelled out.
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  // The bytes that a token adds to a text; not necessarily whole characters.
  virtual std::string token_bytes(int32_t token) const = 0;
  // How the vocabulary spells it; empty outside the vocabulary.
  virtual std::string token_spelling(int32_t token) const = 0;
};

}  // namespace encore
