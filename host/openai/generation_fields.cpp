#include "openai/generation_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace encore {
namespace {

constexpr FloatRange kTemperature{0.0, 2.0};
constexpr FloatRange kTopP{0.0, 1.0, /*above_min=*/true};
constexpr FloatRange kMinP{0.0, 1.0};
constexpr FloatRange kRepetitionPenalty{0.01, 100.0};  // a logit divided by less may be infinite
constexpr FloatRange kPenalty{-2.0, 2.0};
constexpr double kMaxBias = 100.0;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

// Every choice keeps a copy of these.
constexpr size_t kMaxStopTokenIds = 128;
constexpr size_t kMaxBiases = 1024;

using When = RefusedField::When;

constexpr auto kRefusedEverywhere = std::to_array<RefusedField>({
    {"allowed_token_ids"},
    {"bad_words"},
    {"cache_salt"},
    {"ebnf"},
    {"grammar"},
    {"guided_choice"},
    {"guided_decoding"},
    {"guided_grammar"},
    {"guided_json"},
    {"guided_regex"},
    {"include_stop_str_in_output", When::kTrue},
    {"json_schema"},
    {"logits_processors"},
    {"prompt_logprobs"},
    {"regex"},
    {"return_token_ids", When::kTrue},
    {"return_tokens_as_token_ids", When::kTrue},
    {"skip_special_tokens", When::kFalse},
    {"structural_tag"},
    {"structured_outputs"},
    {"truncate_prompt_tokens"},
    {"use_beam_search", When::kTrue},
});

bool asks_for_something(const BodyJson& value, When when) {
  if (when != When::kGiven) return value == BodyJson(when == When::kTrue);
  return !((value.is_array() || value.is_object()) && value.empty());
}

void read_stops(FieldReader& body, const ApiLimits& limits, std::vector<std::string>& out) {
  const BodyJson* value = body.find("stop");
  if (value == nullptr) return;
  if (!value->is_string() && !value->is_array()) {
    return body.refuse("stop", "a string or an array of strings");
  }
  if (value->is_array() && value->size() > static_cast<size_t>(limits.max_stop_strings)) {
    return body.fail("stop holds " + std::to_string(value->size()) + " strings; the limit is " +
                         std::to_string(limits.max_stop_strings),
                     "stop");
  }
  const size_t count = value->is_array() ? value->size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const BodyJson& element = value->is_array() ? (*value)[i] : *value;
    std::string at = "stop";
    if (value->is_array()) at.append("[").append(std::to_string(i)).append("]");
    if (!element.is_string()) return body.refuse_element(at, element, "a string");
    const auto& text = element.get_ref<const std::string&>();
    if (text.empty()) return body.fail(at + " is empty; leave it out", at);
    if (text.size() > static_cast<size_t>(limits.max_stop_bytes)) {
      std::string message = at;
      message.append(" has ").append(std::to_string(text.size()));
      message.append(" bytes; the limit is ").append(std::to_string(limits.max_stop_bytes));
      return body.fail(std::move(message), at);
    }
    out.push_back(text);
  }
}

// "50256", without sign, space or leading zero.
std::optional<int32_t> parse_token_key(const std::string& key, int32_t vocab_size) {
  int32_t id = -1;
  const char* end = key.data() + key.size();
  const auto [stopped, problem] = std::from_chars(key.data(), end, id);
  if (problem != std::errc() || stopped != end || id < 0 || id >= vocab_size) return std::nullopt;
  if (key.size() > 1 && key[0] == '0') return std::nullopt;
  return id;
}

// Of keys that stand twice, the last one counts.
void keep_last_of_each(std::vector<TokenBias>& biases) {
  std::reverse(biases.begin(), biases.end());
  std::stable_sort(biases.begin(), biases.end(),
                   [](const TokenBias& a, const TokenBias& b) { return a.token < b.token; });
  const auto same = [](const TokenBias& a, const TokenBias& b) { return a.token == b.token; };
  biases.erase(std::unique(biases.begin(), biases.end(), same), biases.end());
}

void read_logit_bias(FieldReader& body, const ApiLimits& limits, std::vector<TokenBias>& out) {
  const BodyJson* value = body.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) {
    return body.refuse("logit_bias", "an object from token ids to numbers from -100 to 100");
  }
  for (const auto& [key, bias] : value->get_ref<const BodyJson::object_t&>()) {
    const std::optional<int32_t> token = parse_token_key(key, limits.vocab_size);
    if (!token) {
      return body.fail("logit_bias has the key " + describe_value(BodyJson(key)) + "; it must be " +
                           token_id_text(limits.vocab_size),
                       "logit_bias");
    }
    const double number = bias.is_number() ? bias.get<double>() : 2 * kMaxBias;
    if (number < -kMaxBias || number > kMaxBias) {
      return body.refuse_element("logit_bias." + key, bias, "a number from -100 to 100");
    }
    out.push_back({*token, static_cast<float>(number)});
  }
  keep_last_of_each(out);
  if (out.size() > kMaxBiases) {
    body.fail("logit_bias holds " + std::to_string(out.size()) + " tokens; the limit is " +
                  std::to_string(kMaxBiases),
              "logit_bias");
  }
}

void read_lengths(FieldReader& body, GenerationRequest& out) {
  body.read("max_tokens", 1, kMaxInt32, out.max_tokens);
  body.read("max_completion_tokens", 1, kMaxInt32, out.max_tokens);
  body.read("min_tokens", 0, kMaxInt32, out.min_tokens);
  if (out.max_tokens && out.min_tokens > *out.max_tokens) {
    body.fail("min_tokens is " + std::to_string(out.min_tokens) +
                  "; it must be at most max_tokens, " + std::to_string(*out.max_tokens),
              "min_tokens");
  }
}

void read_streaming(FieldReader& body, GenerationRequest& out) {
  body.read("stream", out.stream);
  const BodyJson* value = body.find("stream_options");
  if (value == nullptr) return;
  if (!value->is_object()) return body.refuse("stream_options", "an object");
  if (!out.stream) {
    return body.fail("stream_options is given without stream; set stream to true or leave it out",
                     "stream_options");
  }
  constexpr auto kRefused = std::to_array<RefusedField>({{"continuous_usage_stats", When::kTrue}});
  FieldReader options(*value, "stream_options");
  options.read("include_usage", out.include_usage);
  refuse_fields(options, kRefused);
  if (!options.ok()) body.fail(*options.error());
}

void check_response_format(FieldReader& body) {
  const BodyJson* format = body.find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return body.refuse("response_format", "an object with a type");
  FieldReader fields(*format, "response_format");
  const BodyJson* type = fields.find("type");
  if (type == nullptr || *type != "text") {
    fields.refuse("type", "\"text\": replies in a given format are not supported");
  }
  if (!fields.ok()) body.fail(*fields.error());
}

}  // namespace

void refuse_fields(FieldReader& body, std::span<const RefusedField> fields) {
  for (const RefusedField& field : fields) {
    const BodyJson* value = body.find(field.name);
    if (value == nullptr || !asks_for_something(*value, field.when)) continue;
    std::string message = body.place(field.name);
    message.append(" is ").append(describe_value(*value));
    message.append("; that is not supported, so leave it out");
    body.fail(std::move(message), field.name);
  }
}

void read_generation_fields(FieldReader& body, const ApiLimits& limits, GenerationRequest& out) {
  refuse_fields(body, kRefusedEverywhere);
  body.read("model", out.model);
  body.read("user", out.user);
  body.read("temperature", kTemperature, out.temperature);
  body.read("top_p", kTopP, out.top_p);
  body.read("min_p", kMinP, out.min_p);
  body.read("top_k", -1, kMaxInt32, out.top_k);
  body.read("repetition_penalty", kRepetitionPenalty, out.repetition_penalty);
  body.read("presence_penalty", kPenalty, out.presence_penalty);
  body.read("frequency_penalty", kPenalty, out.frequency_penalty);
  body.read_seed("seed", out.seed);
  body.read("ignore_eos", out.ignore_eos);
  body.read("n", 1, limits.max_choices, out.n);
  read_logit_bias(body, limits, out.logit_bias);
  read_lengths(body, out);
  read_stops(body, limits, out.stop);
  body.read_token_ids("stop_token_ids", limits.vocab_size, kMaxStopTokenIds, out.stop_token_ids);
  read_streaming(body, out);
  check_response_format(body);
}

}  // namespace encore
