#include "session_text.h"

#include <spdlog/spdlog.h>

#include <variant>

#include "session.h"

namespace encore {

Result<std::unique_ptr<SessionText>> SessionText::open(const Session& session) {
  ENCORE_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  Result<std::unique_ptr<ChatPrompt>> chat = ChatPrompt::open(session);
  if (!chat.ok()) {
    const bool has_template = !session.config().model.chat_template.empty() ||
                              !session.files().text.chat_template.empty() ||
                              !tokenizer->parts().chat_template.empty();
    if (has_template) return chat.status();
    spdlog::warn("/v1/chat/completions is refused: {}", chat.status().message());
  }
  return std::unique_ptr<SessionText>(new SessionText(*tokenizer, std::move(chat)));
}

Result<std::vector<int32_t>> SessionText::encode(const PromptInput& prompt,
                                                 bool add_special_tokens) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    EncodeOptions options;
    options.add_special = add_special_tokens;
    return tokenizer_.encode(*text, options);
  }
  const auto& chat = std::get<ChatInput>(prompt);
  if (!chat_.ok()) return chat_.status();
  RenderOptions options;
  options.tools_json = chat.tools_json;
  options.variables_json = chat.variables_json;
  options.add_generation_prompt = chat.add_generation_prompt;
  return (*chat_)->encode(chat.messages_json, options);
}

std::string SessionText::decode(const std::vector<int32_t>& ids) const {
  DecodeOptions options;
  options.skip_special = false;
  return tokenizer_.decode(ids, options);
}

std::string SessionText::token_bytes(int32_t token) const {
  const TokenDecoder& decoder = tokenizer_.parts().decoder;
  TokenDecoder::Progress middle = decoder.begin(true);
  std::string bytes;
  decoder.append(token_spelling(token), middle, bytes);
  return bytes;
}

std::string SessionText::token_spelling(int32_t token) const {
  return std::string(tokenizer_.id_to_token(token).value_or(""));
}

}  // namespace encore
