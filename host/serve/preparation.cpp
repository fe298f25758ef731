#include "serve/preparation.h"

#include <exception>
#include <utility>
#include <variant>

#include "openai/reply_writer.h"

namespace encore {
namespace {

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

std::optional<ApiError> prepare_generation(const ServedModel& model, Preparation& work) {
  const bool is_chat = work.endpoint == Endpoint::kChatCompletions;
  GenerationRequest& request = work.request;
  std::optional<ApiError> error = is_chat
                                      ? parse_chat_request(work.body, model.limits, request)
                                      : parse_completion_request(work.body, model.limits, request);
  work.body = {};
  if (!error) error = check_model(model, request.model);
  if (error) return error;
  work.prompts.reserve(request.prompts.size());
  for (const PromptInput& prompt : request.prompts) {
    if (work.abandoned.load()) return {};
    Result<std::vector<int32_t>> ids = model.text->encode(prompt, true);
    if (!ids.ok()) return encode_error(ids.status(), is_chat ? "messages" : "prompt");
    work.prompts.push_back(*std::move(ids));
    if (request.echo) work.echoes.push_back(prompt_text(model, prompt));
  }
  request.prompts = {};  // ids are all that is needed from here on
  return check_context(request, work.prompts, model.card.max_model_len);
}

std::optional<ApiError> prepare_tokenize(const ServedModel& model, Preparation& work) {
  TokenizeRequest request;
  if (std::optional<ApiError> error = parse_tokenize_request(work.body, request)) return error;
  const bool is_chat = std::holds_alternative<ChatInput>(request.prompt);
  const Result<std::vector<int32_t>> ids =
      model.text->encode(request.prompt, request.add_special_tokens);
  if (!ids.ok()) return encode_error(ids.status(), is_chat ? "messages" : "prompt");
  std::vector<std::string> spellings;
  if (request.return_token_strs) {
    spellings.reserve(ids->size());
    for (const int32_t id : *ids) spellings.push_back(model.text->token_spelling(id));
  }
  work.answer = tokenize_json(*ids, model.card.max_model_len,
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
