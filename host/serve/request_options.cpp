#include "serve/request_options.h"

#include <algorithm>
#include <string>
#include <utility>

namespace encore {
namespace {

SamplingParams merge_sampling(const GenerationRequest& request, SamplingParams params) {
  params.temperature = request.temperature.value_or(params.temperature);
  params.top_p = request.top_p.value_or(params.top_p);
  params.min_p = request.min_p.value_or(params.min_p);
  params.top_k = request.top_k.value_or(params.top_k);
  params.repetition_penalty = request.repetition_penalty.value_or(params.repetition_penalty);
  params.presence_penalty = request.presence_penalty.value_or(params.presence_penalty);
  params.frequency_penalty = request.frequency_penalty.value_or(params.frequency_penalty);
  params.seed = request.seed.value_or(params.seed);
  params.logit_bias = request.logit_bias;
  params.num_logprobs = request.num_logprobs;
  params.min_tokens = request.min_tokens;
  return params;
}

}  // namespace

std::vector<RequestOptions> make_request_options(const GenerationRequest& request,
                                                 const std::vector<std::vector<int32_t>>& prompts,
                                                 const RequestDefaults& defaults,
                                                 int32_t max_request_tokens, int64_t deadline_us) {
  RequestOptions common;
  common.sampling = merge_sampling(request, defaults.sampling);
  common.max_tokens = request.max_tokens.value_or(request.is_chat ? -1 : defaults.max_tokens);
  common.stop = request.stop.empty() ? defaults.stop : request.stop;
  common.stop_tokens = request.stop_token_ids;
  common.ignore_eos = request.ignore_eos || defaults.ignore_eos;
  common.deadline_us = deadline_us;
  std::vector<RequestOptions> requests;
  requests.reserve(prompts.size() * static_cast<size_t>(request.n));
  for (const std::vector<int32_t>& prompt : prompts) {
    const int32_t room = max_request_tokens - static_cast<int32_t>(prompt.size());
    const int32_t max_tokens = common.max_tokens < 0 ? -1 : std::min(common.max_tokens, room);
    for (int32_t choice = 0; choice < request.n; ++choice) {
      RequestOptions& options = requests.emplace_back(common);
      options.prompt = prompt;
      options.max_tokens = max_tokens;
      options.sampling.seed += static_cast<uint64_t>(choice);
    }
  }
  return requests;
}

ApiError context_exceeded(bool is_chat, int64_t tokens, bool exact, int32_t max_request_tokens) {
  const char* what = is_chat ? "messages" : "prompt";
  std::string message = "This model's maximum context length is ";
  message.append(std::to_string(max_request_tokens)).append(" tokens; your ").append(what);
  message.append(is_chat ? " have " : " has ").append(exact ? "" : "at least ");
  message.append(std::to_string(tokens));
  message.append(", which leaves no room for a reply. Shorten the ").append(what).append(".");
  return bad_request(std::move(message), what, "context_length_exceeded");
}

std::optional<ApiError> check_context(const GenerationRequest& request,
                                      const std::vector<std::vector<int32_t>>& prompts,
                                      int32_t max_request_tokens) {
  for (const std::vector<int32_t>& prompt : prompts) {
    if (std::ssize(prompt) < max_request_tokens) continue;
    return context_exceeded(request.is_chat, std::ssize(prompt), /*exact=*/true,
                            max_request_tokens);
  }
  return {};
}

}  // namespace encore
