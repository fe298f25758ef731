// Runs requests through the engine to their end, together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "encore/status.h"
#include "engine/engine.h"
#include "engine/request.h"

namespace encore {

struct Reply {
  std::vector<int32_t> tokens;  // the end token included
  std::string text;
  std::vector<float> logprobs;                          // one a token, if asked for
  std::vector<std::vector<TokenLogprob>> top_logprobs;  // likewise
  FinishReason finish = FinishReason::kNone;
  std::string message;  // why, if finish is kError
  int32_t prompt_tokens = 0;
  int32_t num_preemptions = 0;
  RequestTimings timings;
};

struct Generation {
  std::vector<Reply> replies;  // in the order of the requests
  bool was_interrupted = false;
  Status engine_status;  // the engine's own failure; each reply then ends with kError
};

// Hears of replies as they grow; either may be empty.
struct GenerationSink {
  std::function<void(size_t index, std::string_view text)> text;  // as it becomes certain
  std::function<void(size_t index)> finished;                     // after its last text
};

// Adds all requests, then steps until all have ended. An interrupt (interrupt.h) cancels what is
// running; replies then hold what there is.
// Errors: Engine::add's, before anything has run.
Result<Generation> generate(Engine& engine, std::vector<RequestOptions> requests,
                            const GenerationSink& sink);

struct Speed {
  double prompt_tokens_per_s = 0.0;      // until the last request's first token; 0 if unknown
  double generation_tokens_per_s = 0.0;  // from the first first token on; 0 if unknown
  int64_t time_to_first_token_us = -1;   // the fastest request's
};
Speed measure_speed(const std::vector<Reply>& replies);

}  // namespace encore
