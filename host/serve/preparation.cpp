#include "serve/preparation.h"

#include <exception>
#include <utility>
#include <variant>

#include "openai/reply_writer.h"

namespace encore {
namespace {

// A prompt that is too long is counted as far as this, in contexts, so that most refusals name the
// number of tokens that there are.
constexpr int64_t kContextsCounted = 2;

std::optional<ApiError> check_model(const ServedModel& model, const std::string& wanted) {
  if (wanted.empty() || wanted == model.card.name) return {};
  return model_not_found(wanted, model.card.name);
}

// An encoder's error, as one about `param`.
ApiError encode_error(const Status& status, const char* param) {
  ApiError error = to_api_error(status);
  if (error.http_status == 400) error.param = param;
  return error;
}

std::string prompt_text(const ServedModel& model, const PromptInput& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return model.text->decode(*ids);
  return {};
}

// The clock is asked along with the flag.
bool is_over(const Preparation& work) {
  return work.abandoned.load() || std::chrono::steady_clock::now() >= work.deadline;
}

PromptBounds bounds_of(const Preparation& work, int64_t max_ids) {
  PromptBounds bounds;
  bounds.max_ids = max_ids;
  bounds.abandoned = [&work] { return is_over(work); };
  return bounds;
}

// The ids of a request's prompts, all of them, unless its time is over.
std::optional<ApiError> encode_prompts(const ServedModel& model, Preparation& work) {
  GenerationRequest& request = work.request;
  PromptBounds bounds = bounds_of(work, model.card.max_model_len - 1);
  bounds.max_counted = kContextsCounted * model.card.max_model_len;
  work.prompts.reserve(request.prompts.size());
  for (const PromptInput& prompt : request.prompts) {
    if (is_over(work)) return {};
    Result<EncodedPrompt> encoded = model.text->encode(prompt, request.reading, bounds);
    if (encoded.status().code() == StatusCode::kCancelled) return {};
    if (!encoded.ok())
      return encode_error(encoded.status(), request.is_chat ? "messages" : "prompt");
    if (encoded->least_ids > 0) {
      return context_exceeded(request.is_chat, encoded->least_ids, /*exact=*/false,
                              model.card.max_model_len);
    }
    work.prompts.push_back(std::move(encoded->ids));
    if (request.echo) work.echoes.push_back(prompt_text(model, prompt));
  }
  return check_context(request, work.prompts, model.card.max_model_len);
}

std::optional<ApiError> prepare_generation(const ServedModel& model, Preparation& work) {
  const bool is_chat = work.endpoint == Endpoint::kChatCompletions;
  GenerationRequest& request = work.request;
  std::optional<ApiError> error = is_chat
                                      ? parse_chat_request(work.body, model.limits, request)
                                      : parse_completion_request(work.body, model.limits, request);
  work.body = {};
  if (!error) error = check_model(model, request.model);
  if (error) return error;
  work.num_prompts = static_cast<int32_t>(request.prompts.size());
  error = encode_prompts(model, work);
  request.prompts = {};  // ids are all that is needed from here on
  work.timed_out = !error && std::ssize(work.prompts) < work.num_prompts;
  return error;
}

std::optional<ApiError> prepare_tokenize(const ServedModel& model, Preparation& work) {
  TokenizeRequest request;
  if (std::optional<ApiError> error = parse_tokenize_request(work.body, request)) return error;
  const bool is_chat = std::holds_alternative<ChatInput>(request.prompt);
  const Result<EncodedPrompt> encoded = model.text->encode(
      request.prompt, request.reading, bounds_of(work, model.card.max_model_len));
  work.timed_out = encoded.status().code() == StatusCode::kCancelled;
  if (work.timed_out) return {};
  if (!encoded.ok()) return encode_error(encoded.status(), is_chat ? "messages" : "prompt");
  if (encoded->least_ids > 0) {
    return context_exceeded(is_chat, encoded->least_ids, /*exact=*/false, model.card.max_model_len);
  }
  const std::vector<int32_t>& ids = encoded->ids;
  std::vector<std::string> spellings;
  if (request.return_token_strs) {
    spellings.reserve(ids.size());
    for (const int32_t id : ids) spellings.push_back(model.text->token_spelling(id));
  }
  work.answer = tokenize_json(ids, model.card.max_model_len,
                              request.return_token_strs ? &spellings : nullptr);
  return {};
}

std::optional<ApiError> prepare_detokenize(const ServedModel& model, Preparation& work) {
  std::vector<int32_t> ids;
  if (std::optional<ApiError> error = parse_detokenize_request(work.body, model.limits, ids)) {
    return error;
  }
  work.answer = detokenize_json(model.text->decode(ids));
  return {};
}

}  // namespace

void prepare(const ServedModel& model, Preparation& work) {
  if (work.abandoned.load()) return;
  try {
    if (work.endpoint == Endpoint::kTokenize) {
      work.error = prepare_tokenize(model, work);
    } else if (work.endpoint == Endpoint::kDetokenize) {
      work.error = prepare_detokenize(model, work);
    } else {
      work.error = prepare_generation(model, work);
    }
  } catch (const std::exception& exception) {  // out of memory, for one
    work.error = to_api_error(
        internal_error(std::string("the request could not be read: ") + exception.what()));
  }
}

ApiError model_not_found(const std::string& wanted, const std::string& served) {
  ApiError error =
      bad_request("The model `" + wanted + "` does not exist; this server has `" + served + "`.",
                  "model", "model_not_found");
  error.http_status = 404;
  return error;
}

}  // namespace encore
