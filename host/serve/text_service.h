// Prompts to token ids, away from the server's thread: chat templates, tokenizing, detokenizing.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "encore/status.h"
#include "openai/generation_request.h"

namespace encore {

// How far a prompt is encoded.
struct PromptBounds {
  // A prompt whose length alone says that it has more ids is not encoded at all.
  int64_t max_ids = std::numeric_limits<int64_t>::max();
  // One that turns out to have more than these is not encoded to its end.
  int64_t max_counted = std::numeric_limits<int64_t>::max();
  // Asked now and then: whether nobody waits for the ids any more; empty: somebody does.
  std::function<bool()> abandoned;
};

struct EncodedPrompt {
  std::vector<int32_t> ids;
  int64_t least_ids = 0;  // > 0: the prompt passes a bound: it has so many or more, ids are not all
};

// Every function may be called from any thread, at once.
class TextService {
 public:
  virtual ~TextService() = default;

  // The ids of a prompt. Control tokens spelled in a conversation stay text, but for those that the
  // template itself writes. Ids are returned as they are, whatever the bounds.
  // Errors: kInvalidArgument, fit for the caller, for a template that refuses the conversation, or
  // a conversation although the model has no template; kCancelled if bounds.abandoned() said so.
  virtual Result<EncodedPrompt> encode(const PromptInput& prompt, const TextReading& reading,
                                       const PromptBounds& bounds) const = 0;
  // Special tokens are spelled out.
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  // The bytes that a token adds to a text; not necessarily whole characters.
  virtual std::string token_bytes(int32_t token) const = 0;
  // How the vocabulary spells it; empty outside the vocabulary.
  virtual std::string token_spelling(int32_t token) const = 0;
};

}  // namespace encore
