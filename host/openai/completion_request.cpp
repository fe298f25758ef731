#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "openai/generation_fields.h"
#include "openai/generation_request.h"

namespace encore {
namespace {

using When = RefusedField::When;

constexpr auto kRefused = std::to_array<RefusedField>({
    {"add_special_tokens", When::kFalse},
    {"prompt_embeds"},
    {"suffix"},
});

constexpr std::string_view kPromptForms =
    "a string, an array of strings, an array of token ids or an array of such arrays";

std::string element_name(size_t index) { return "prompt[" + std::to_string(index) + "]"; }

// Ids of one prompt, which stands at `at`.
std::optional<std::vector<int32_t>> read_ids(FieldReader& body, const BodyJson& array,
                                             const std::string& at, int32_t vocab_size) {
  if (array.empty()) {
    body.fail(at + " is empty; it needs at least one token id", at);
    return std::nullopt;
  }
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const BodyJson& element : array) {
    const std::optional<int32_t> id = to_token_id(element, vocab_size);
    if (!id) {
      std::string place = at;
      place.append("[").append(std::to_string(ids.size())).append("]");
      body.refuse_element(place, element, token_id_text(vocab_size));
      return std::nullopt;
    }
    ids.push_back(*id);
  }
  return ids;
}

// An array of strings, or of arrays of ids.
void read_prompt_list(FieldReader& body, const BodyJson& list, const ApiLimits& limits,
                      std::vector<PromptInput>& out) {
  if (list.size() > static_cast<size_t>(limits.max_prompts)) {
    return body.fail("prompt holds " + std::to_string(list.size()) + " prompts; the limit is " +
                         std::to_string(limits.max_prompts),
                     "prompt");
  }
  const bool texts = list[0].is_string();
  for (size_t i = 0; i < list.size(); ++i) {
    const BodyJson& element = list[i];
    if (texts ? !element.is_string() : !element.is_array()) {
      return body.refuse_element(element_name(i), element,
                                 texts ? "a string, as prompt[0] is" : "an array of token ids");
    }
    if (texts) {
      out.emplace_back(element.get_ref<const std::string&>());
      continue;
    }
    std::optional<std::vector<int32_t>> ids =
        read_ids(body, element, element_name(i), limits.vocab_size);
    if (!ids) return;
    out.emplace_back(*std::move(ids));
  }
}

void read_prompt(FieldReader& body, const ApiLimits& limits, std::vector<PromptInput>& out) {
  const BodyJson* prompt = body.find("prompt");
  if (prompt != nullptr && prompt->is_string()) {
    out.emplace_back(prompt->get_ref<const std::string&>());
    return;
  }
  if (prompt == nullptr || !prompt->is_array() || prompt->empty()) {
    return body.refuse("prompt", kPromptForms);
  }
  const BodyJson& first = (*prompt)[0];
  if (first.is_string() || first.is_array()) return read_prompt_list(body, *prompt, limits, out);
  if (!first.is_number()) return body.refuse_element("prompt[0]", first, "text or a token id");
  std::optional<std::vector<int32_t>> ids = read_ids(body, *prompt, "prompt", limits.vocab_size);
  if (ids) out.emplace_back(*std::move(ids));
}

void read_logprobs(FieldReader& body, const ApiLimits& limits, GenerationRequest& out) {
  body.read("logprobs", 0, limits.max_logprobs, out.num_logprobs);
  body.read("echo", out.echo);
  if (out.echo && out.num_logprobs >= 0) {
    body.fail(
        "echo is true and logprobs is given; log-probabilities of the prompt are not "
        "supported, so leave one of them out",
        "echo");
  }
}

void check_best_of(FieldReader& body, const ApiLimits& limits, int32_t n) {
  int32_t best_of = n;
  body.read("best_of", 1, limits.max_choices, best_of);
  if (best_of != n) {
    body.fail("best_of is " + std::to_string(best_of) + " and n is " + std::to_string(n) +
                  "; choices are not ranked, so leave best_of out",
              "best_of");
  }
}

}  // namespace

std::optional<ApiError> parse_completion_request(std::string_view body, const ApiLimits& limits,
                                                 GenerationRequest& out) {
  BodyJson json;
  if (std::optional<ApiError> error = parse_json_body(body, json)) return error;
  out = {};
  FieldReader fields(json);
  refuse_fields(fields, kRefused);
  read_prompt(fields, limits, out.prompts);
  fields.read("parse_special", out.reading.parse_special);
  read_generation_fields(fields, limits, out);
  read_logprobs(fields, limits, out);
  check_best_of(fields, limits, out.n);
  return fields.error();
}

}  // namespace encore
