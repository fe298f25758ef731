#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "openai/conversation.h"
#include "openai/generation_fields.h"
#include "openai/generation_request.h"

namespace encore {
namespace {

using When = RefusedField::When;

constexpr auto kRefused = std::to_array<RefusedField>({
    {"audio"},
    {"echo", When::kTrue},
    {"web_search_options"},
});

void read_logprobs(FieldReader& body, const ApiLimits& limits, int32_t& out) {
  bool wanted = false;
  int32_t top = 0;
  body.read("logprobs", wanted);
  body.read("top_logprobs", 0, limits.max_logprobs, top);
  if (body.has("top_logprobs") && !wanted) {
    body.fail("top_logprobs is given without logprobs; set logprobs to true or leave it out",
              "top_logprobs");
  }
  if (wanted) out = top;
}

void check_modalities(FieldReader& body) {
  const BodyJson* value = body.find("modalities");
  if (value != nullptr && *value != BodyJson::array({"text"})) {
    body.refuse("modalities", "[\"text\"]");
  }
}

}  // namespace

std::optional<ApiError> parse_chat_request(std::string_view body, const ApiLimits& limits,
                                           GenerationRequest& out) {
  BodyJson json;
  if (std::optional<ApiError> error = parse_json_body(body, json)) return error;
  out = {};
  out.is_chat = true;
  FieldReader fields(json);
  refuse_fields(fields, kRefused);
  ChatInput conversation;
  read_conversation(fields, conversation);
  read_generation_fields(fields, limits, out);
  read_logprobs(fields, limits, out.num_logprobs);
  check_modalities(fields);
  out.prompts.emplace_back(std::move(conversation));
  return fields.error();
}

}  // namespace encore
