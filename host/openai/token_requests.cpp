#include <nlohmann/json.hpp>
#include <utility>

#include "openai/conversation.h"
#include "openai/generation_request.h"

namespace encore {

std::optional<ApiError> parse_tokenize_request(std::string_view body, TokenizeRequest& out) {
  BodyJson json;
  if (std::optional<ApiError> error = parse_json_body(body, json)) return error;
  out = {};
  FieldReader fields(json);
  if (fields.has("messages")) {
    if (fields.has("prompt")) fields.fail("prompt and messages are given; leave one out", "prompt");
    ChatInput conversation;
    read_conversation(fields, conversation);
    out.prompt = std::move(conversation);
  } else {
    std::string text;
    if (!fields.has("prompt")) fields.refuse("prompt", "a string, or messages must be given");
    fields.read("prompt", text);
    fields.read("add_special_tokens", out.reading.add_special_tokens);
    fields.read("parse_special", out.reading.parse_special);
    out.prompt = std::move(text);
  }
  fields.read("return_token_strs", out.return_token_strs);
  return fields.error();
}

std::optional<ApiError> parse_detokenize_request(std::string_view body, const ApiLimits& limits,
                                                 std::vector<int32_t>& out) {
  BodyJson json;
  if (std::optional<ApiError> error = parse_json_body(body, json)) return error;
  out.clear();
  FieldReader fields(json);
  if (!fields.has("tokens")) fields.refuse("tokens", "an array of token ids");
  fields.read_token_ids("tokens", limits.vocab_size, /*max_count=*/0, out);
  return fields.error();
}

}  // namespace encore
