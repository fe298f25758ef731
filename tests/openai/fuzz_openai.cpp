// Feeds arbitrary bytes to the readers of bodies and, as events, to the writers of replies: every
// body is read or refused with a valid error, every record and every reply is valid JSON.
//   fuzz_openai -max_total_time=600 -max_len=4096 corpus/fuzz_openai
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "openai/generation_request.h"
#include "openai/reply_writer.h"
#include "text/utf8.h"

namespace encore {
namespace {

using Json = nlohmann::json;

void require(bool held) {
  if (!held) std::abort();
}

Json parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  require(!json.is_discarded());
  return json;
}

ApiLimits limits() {
  ApiLimits out;
  out.vocab_size = 512;
  return out;
}

void check_error(const ApiError& error) {
  require(error.http_status == 400 && !error.message.empty());
  require(parse(to_json(error))["error"]["message"].is_string());
}

void check_chat_input(const ChatInput& input) {
  require(parse(input.messages_json).is_array());
  require(input.tools_json.empty() || parse(input.tools_json).is_array());
  require(input.variables_json.empty() || parse(input.variables_json).is_object());
}

void check_prompt(const PromptInput& prompt) {
  if (const auto* input = std::get_if<ChatInput>(&prompt)) check_chat_input(*input);
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
    require(!ids->empty());
    for (const int32_t id : *ids) require(id >= 0 && id < 512);
  }
}

void check_request(const GenerationRequest& request) {
  require(!request.prompts.empty() && (!request.is_chat || request.prompts.size() == 1));
  for (const PromptInput& prompt : request.prompts) check_prompt(prompt);
  require(!request.temperature || (*request.temperature >= 0.0F && *request.temperature <= 2.0F));
  require(!request.top_p || (*request.top_p > 0.0F && *request.top_p <= 1.0F));
  require(!request.repetition_penalty || *request.repetition_penalty > 0.0F);
  require(!request.max_tokens || *request.max_tokens >= std::max(1, request.min_tokens));
  require(request.n >= 1 && request.n <= 128);
  require(request.num_logprobs >= -1 && request.num_logprobs <= 20);
  require(request.stop.size() <= 16);
  require(request.stream || !request.include_usage);
  for (size_t i = 0; i < request.logit_bias.size(); ++i) {
    require(std::abs(request.logit_bias[i].bias) <= 100.0F);
    require(i == 0 || request.logit_bias[i - 1].token < request.logit_bias[i].token);
  }
}

void read_body(std::string_view body) {
  GenerationRequest request;
  for (const auto parser : {parse_chat_request, parse_completion_request}) {
    if (const std::optional<ApiError> error = parser(body, limits(), request)) {
      check_error(*error);
    } else {
      check_request(request);
    }
  }
  TokenizeRequest tokenize;
  if (const std::optional<ApiError> error = parse_tokenize_request(body, tokenize)) {
    check_error(*error);
  } else {
    check_prompt(tokenize.prompt);
  }
  std::vector<int32_t> ids;
  if (const std::optional<ApiError> error = parse_detokenize_request(body, limits(), ids)) {
    check_error(*error);
  } else {
    require(parse(tokenize_json(ids, 8192, nullptr))["tokens"] == Json(ids));
  }
  require(parse(detokenize_json(body))["prompt"].is_string());
}

// Takes what a reply needs from the front of the bytes.
class Script {
 public:
  explicit Script(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  uint8_t byte() { return done() ? 0 : static_cast<uint8_t>(take(1)[0]); }
  std::string text() { return std::string(take(byte() % 16)); }
  float number() {
    const std::string_view raw = take(sizeof(float));
    float value = 0.0F;
    std::memcpy(&value, raw.data(), raw.size());
    return value;  // NaN and infinities among them
  }

 private:
  std::string_view take(size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view bytes_;
};

RequestEvent make_event(Script& script) {
  RequestEvent event;
  const uint8_t flags = script.byte();
  event.token = flags % 8 == 7 ? -1 : flags % 8;
  event.text = script.text();
  event.has_logprob = (flags & 8) != 0;
  event.logprob = script.number();
  for (int i = flags >> 6; i > 0; --i) {
    event.top_logprobs.push_back({script.byte() % 8, script.number()});
  }
  if ((flags & 48) == 48) event.finish = static_cast<FinishReason>(script.byte() % 6);
  return event;
}

// Takes the records of a stream apart; returns the text of each choice.
std::vector<std::string> read_stream(std::string_view stream, size_t num_choices, bool is_chat) {
  std::vector<std::string> texts(num_choices);
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    require(end != std::string_view::npos && stream.starts_with("data: "));
    const std::string_view record = stream.substr(6, end - 6);
    require(record.find_first_of("\r\n") == std::string_view::npos);
    stream.remove_prefix(end + 2);
    if (record == "[DONE]") break;
    const Json json = parse(record);
    if (json.contains("error")) continue;
    for (const Json& choice : json.at("choices")) {
      std::string& text = texts.at(choice.at("index").get<size_t>());
      if (!is_chat) {
        text += choice.at("text").get<std::string>();
      } else if (choice.at("delta").contains("content")) {
        text += choice.at("delta").at("content").get<std::string>();
      }
    }
  }
  require(stream.empty());
  return texts;
}

// Streamed and whole, the same events give the same texts.
void write_reply(Script script) {
  const uint8_t flags = script.byte();
  const int32_t num_choices = 1 + flags % 4;
  ReplyHeader header;
  header.is_chat = (flags & 16) != 0;
  header.include_usage = (flags & 32) != 0;
  header.num_logprobs = (flags >> 6) - 1;
  header.model = script.text();
  header.id = script.text();
  const std::string token = script.text();
  const TokenBytes token_bytes = [&](int32_t id) {
    return token.substr(std::min(static_cast<size_t>(id), token.size()));
  };
  std::vector<std::string> echo;
  if ((flags & 4) != 0 && !header.is_chat) {
    echo.push_back(replace_malformed_utf8(script.text()));
  }

  ReplyStream stream(header, num_choices, token_bytes);
  ReplyCollector whole(header, num_choices, token_bytes);
  std::string out;
  stream.open(echo, out);
  whole.open(echo);
  bool whole_characters = true;  // as the engine promises; else pieces are mended one by one
  for (int i = 0; i < 64 && !script.done(); ++i) {
    const int32_t index = script.byte() % num_choices;
    const RequestEvent event = make_event(script);
    whole_characters = whole_characters && is_valid_utf8(event.text);
    stream.add(index, event, out);
    whole.add(index, event);
  }
  if ((flags & 8) != 0) stream.fail(bad_request(script.text()), out);
  stream.close({3, 4, 5}, out);

  const std::vector<std::string> texts = read_stream(out, num_choices, header.is_chat);
  const Json body = parse(whole.body({3, 4, 5}));
  require(body.at("choices").size() == texts.size());
  for (size_t i = 0; whole_characters && i < texts.size(); ++i) {
    const Json& choice = body["choices"][i];
    const Json& text = header.is_chat ? choice.at("message").at("content") : choice.at("text");
    require(text.get<std::string>() == texts[i]);
  }
}

}  // namespace
}  // namespace encore

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  encore::read_body(bytes);
  encore::write_reply(encore::Script(bytes));
  return 0;
}
