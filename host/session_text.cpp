#include "session_text.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "session.h"

namespace encore {
namespace {

EncodeBounds encode_bounds(const PromptBounds& bounds) {
  return {.max_ids = bounds.max_counted, .abandoned = bounds.abandoned};
}

EncodedPrompt encoded(std::vector<int32_t> ids, const PromptBounds& bounds) {
  const auto count = std::ssize(ids);
  return {.ids = std::move(ids), .least_ids = count > bounds.max_counted ? count : 0};
}

EncodedPrompt too_long(int64_t least_ids) { return {.ids = {}, .least_ids = least_ids}; }

}  // namespace

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

Result<EncodedPrompt> SessionText::encode(const PromptInput& prompt, const TextReading& reading,
                                          const PromptBounds& bounds) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return EncodedPrompt{*ids};
  if (const auto* chat = std::get_if<ChatInput>(&prompt)) return encode_chat(*chat, bounds);
  const auto& text = std::get<std::string>(prompt);
  const int64_t least = tokenizer_.least_ids(std::ssize(text));
  if (least > bounds.max_ids) return too_long(least);
  EncodeOptions options;
  options.add_special = reading.add_special_tokens;
  options.parse_special = reading.parse_special;
  ENCORE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          tokenizer_.encode(text, options, encode_bounds(bounds)));
  return encoded(std::move(ids), bounds);
}

// Renders take turns, so what cannot fit is not rendered: a message costs a token or more.
Result<EncodedPrompt> SessionText::encode_chat(const ChatInput& chat,
                                               const PromptBounds& bounds) const {
  if (!chat_.ok()) return chat_.status();
  const int64_t least = std::max(chat.num_messages, tokenizer_.least_ids(chat.text_bytes));
  if (least > bounds.max_ids) return too_long(least);
  RenderOptions options;
  options.tools_json = chat.tools_json;
  options.variables_json = chat.variables_json;
  options.add_generation_prompt = chat.add_generation_prompt;
  ENCORE_ASSIGN_OR_RETURN(const PromptText prompt, (*chat_)->render(chat.messages_json, options));
  const int64_t least_rendered = tokenizer_.least_ids(std::ssize(prompt.text));
  if (least_rendered > bounds.max_ids) return too_long(least_rendered);
  ENCORE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          tokenizer_.encode_prompt(prompt, encode_bounds(bounds)));
  return encoded(std::move(ids), bounds);
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
