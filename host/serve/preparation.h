// The part of a request that may take long and touches neither connection nor engine: reading the
// body, rendering the template, tokenizing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "openai/api_error.h"
#include "openai/generation_request.h"
#include "serve/routes.h"
#include "serve/served_model.h"

namespace encore {

// Made by the server's thread, filled in by a worker, then read by the server's thread again.
struct Preparation {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string body;
  // When the request's time is over.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::atomic<bool> abandoned = false;  // any thread: nobody waits for the result

  std::optional<ApiError> error;              // to answer with; what follows is then meaningless
  bool timed_out = false;                     // at the deadline; there are no ids then
  std::string answer;                         // of kTokenize and kDetokenize, complete
  GenerationRequest request;                  // of kChatCompletions and kCompletions
  int32_t num_prompts = 0;                    // of request.prompts, which are gone
  std::vector<std::vector<int32_t>> prompts;  // ids of request.prompts
  std::vector<std::string> echoes;            // their texts, if they are to be repeated
};

// Fills in `work`; gives up as soon as it is abandoned or its deadline has passed, between reading
// the body and rendering a template, and while text is encoded. Never throws: what goes wrong is in
// Preparation::error.
void prepare(const ServedModel& model, Preparation& work);

// 404: the server has another model.
ApiError model_not_found(const std::string& wanted, const std::string& served);

}  // namespace encore
