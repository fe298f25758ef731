// From what a caller asks for to what the engine is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "openai/api_error.h"
#include "openai/generation_request.h"

namespace encore {

// What applies where a request says nothing.
struct RequestDefaults {
  SamplingParams sampling;
  int32_t max_tokens = -1;  // of a completion; a chat's reply has all the room there is
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

// One for each choice, those of a prompt together: choice i of a prompt has the seed plus i, so
// that choices differ and each can be had again.
//   prompts             ids of request.prompts, in order, all shorter than max_request_tokens
//   max_request_tokens  of prompt and reply together; a reply ends there, whatever was asked for
//   deadline_us         of RequestOptions
std::vector<RequestOptions> make_request_options(const GenerationRequest& request,
                                                 const std::vector<std::vector<int32_t>>& prompts,
                                                 const RequestDefaults& defaults,
                                                 int32_t max_request_tokens, int64_t deadline_us);

// The error for a prompt of `tokens`, or at least so many, that leaves no room for a reply.
ApiError context_exceeded(bool is_chat, int64_t tokens, bool exact, int32_t max_request_tokens);

// The error for a prompt that leaves no room for a single token of a reply, or nothing.
//   max_request_tokens  of prompt and reply together
std::optional<ApiError> check_context(const GenerationRequest& request,
                                      const std::vector<std::vector<int32_t>>& prompts,
                                      int32_t max_request_tokens);

}  // namespace encore
