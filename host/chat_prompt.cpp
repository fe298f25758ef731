#include "chat_prompt.h"

#include <nlohmann/json.hpp>

#include "prompts.h"
#include "session.h"

namespace encore {
namespace {

// model.chat_template, else what the model's files say.
Result<std::string> template_source(const Session& session, const Tokenizer& tokenizer) {
  const std::string& file = session.config().model.chat_template;
  if (!file.empty()) return read_prompt_file(file);
  const std::string& own = session.files().text.chat_template;
  const std::string& source = own.empty() ? tokenizer.parts().chat_template : own;
  if (!source.empty()) return source;
  return invalid_argument(
      "the model has no chat template; set model.chat_template to a Jinja file, or give prompts "
      "instead of messages");
}

}  // namespace

Result<std::unique_ptr<ChatPrompt>> ChatPrompt::open(const Session& session) {
  ENCORE_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  ENCORE_ASSIGN_OR_RETURN(const std::string source, template_source(session, *tokenizer));
  ENCORE_ASSIGN_OR_RETURN(const std::string library, find_chat_template_library());
  ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<ChatTemplate> chat_template,
                          ChatTemplate::create(source, *tokenizer, library));
  return std::unique_ptr<ChatPrompt>(new ChatPrompt(*tokenizer, std::move(chat_template)));
}

Result<std::vector<int32_t>> ChatPrompt::encode(const std::vector<ChatMessage>& messages) const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  // Malformed UTF-8 becomes U+FFFD, as it does in a raw prompt.
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  ENCORE_ASSIGN_OR_RETURN(const PromptText prompt, template_->render(text));
  return tokenizer_.encode_prompt(prompt);
}

}  // namespace encore
