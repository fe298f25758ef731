// The server's text service over a session's tokenizer and chat template.
#pragma once

#include <memory>

#include "chat_prompt.h"
#include "encore/status.h"
#include "serve/text_service.h"
#include "text/tokenizer.h"

namespace encore {

class Session;

// Borrows the session.
class SessionText : public TextService {
 public:
  // A model without a chat template is served; conversations are then refused with the reason.
  // Errors: kNotFound for a model without a tokenizer; those of ChatPrompt::open if there is a
  // template and it does not load.
  static Result<std::unique_ptr<SessionText>> open(const Session& session);

  Result<EncodedPrompt> encode(const PromptInput& prompt, const TextReading& reading,
                               const PromptBounds& bounds) const override;
  std::string decode(const std::vector<int32_t>& ids) const override;
  std::string token_bytes(int32_t token) const override;
  std::string token_spelling(int32_t token) const override;

 private:
  SessionText(const Tokenizer& tokenizer, Result<std::unique_ptr<ChatPrompt>> chat)
      : tokenizer_(tokenizer), chat_(std::move(chat)) {}

  Result<EncodedPrompt> encode_chat(const ChatInput& chat, const PromptBounds& bounds) const;

  const Tokenizer& tokenizer_;
  Result<std::unique_ptr<ChatPrompt>> chat_;  // or why there is none
};

}  // namespace encore
