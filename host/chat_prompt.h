// Conversations to prompts, through the model's own chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace encore {

class Session;

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A loaded template. Any thread may encode; renders take turns. Borrows the session.
class ChatPrompt {
 public:
  // Loads the template library beside the binary and the session's template into it: the file
  // model.chat_template if set, else the model's own.
  // Errors: kInvalidArgument if the model has no template or the file cannot be read; those of
  // ChatTemplate::create.
  static Result<std::unique_ptr<ChatPrompt>> open(const Session& session);

  // The ids of the conversation and of the header of the reply. What users wrote never becomes a
  // control token.
  // Errors: the template's, with its message.
  Result<std::vector<int32_t>> encode(const std::vector<ChatMessage>& messages) const;

  // The prompt of a JSON array of messages, with tools, variables and the choice of whether the
  // reply's header is added; for Tokenizer::encode_prompt.
  // Errors: as encode().
  Result<PromptText> render(std::string_view messages_json, const RenderOptions& options) const {
    return template_->render(messages_json, options);
  }

 private:
  ChatPrompt(const Tokenizer& tokenizer, std::unique_ptr<ChatTemplate> chat_template)
      : tokenizer_(tokenizer), template_(std::move(chat_template)) {}

  const Tokenizer& tokenizer_;
  std::unique_ptr<ChatTemplate> template_;
};

}  // namespace encore
