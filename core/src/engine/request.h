// What a caller asks of the engine, and what the engine says back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/forward_batch.h"

namespace encore {

// Names a request for its whole life; never used twice by one engine. 0 is no request.
using RequestId = uint64_t;

// How a request's tokens are drawn. Defaults are greedy, with everything else off.
struct SamplingParams {
  float temperature = 0.0F;           // >= 0; below 1e-4: greedy
  float top_p = 1.0F;                 // (0, 1]
  float min_p = 0.0F;                 // [0, 1]
  int32_t top_k = 0;                  // -1 and 0 are off; above the vocabulary is off too
  float repetition_penalty = 1.0F;    // > 0; over prompt and reply
  float presence_penalty = 0.0F;      // [-2, 2]; over the reply
  float frequency_penalty = 0.0F;     // [-2, 2]; over the reply
  uint64_t seed = 0;                  // the same seed and prompt give the same text, in any company
  std::vector<TokenBias> logit_bias;  // [-100, 100] or -inf (bans the token); no token twice
  // -1: none; 0: the log-probability of each new token; N: also the N most probable tokens'.
  int32_t num_logprobs = -1;  // at most RunnerLimits::max_logprobs
  // No end or stop token is sampled, and no stop string ends the reply, before this many tokens.
  int32_t min_tokens = 0;
};

struct RequestOptions {
  std::vector<int32_t> prompt;  // at least one id
  SamplingParams sampling;
  // Tokens of the reply; -1: as many as context and KV cache allow. The reply also ends (by
  // length) where prompt and reply reach the context limit.
  int32_t max_tokens = -1;
  // Ends the reply where its text contains one of these; nothing of the stop itself is sent. Needs
  // EngineOptions::make_text.
  std::vector<std::string> stop;
  // Ends the reply when sampled, in addition to EngineOptions::end_tokens.
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;  // EngineOptions::end_tokens do not end the reply
  // Microseconds from Engine::add until the request ends with kDeadline wherever it then is; < 0:
  // no limit.
  int64_t deadline_us = -1;
};

// The numbers are stable: they label metrics.
enum class FinishReason : int32_t {
  kNone = 0,       // not finished
  kStop = 1,       // an end token, a stop token or a stop string
  kLength = 2,     // max_tokens or the context limit
  kError = 3,      // RequestEvent::message says what
  kCancelled = 4,  // Engine::cancel
  kDeadline = 5,   // RequestOptions::deadline_us has passed
};

inline constexpr int32_t kNumFinishReasons = 6;

inline constexpr std::string_view kFinishReasonNames[kNumFinishReasons] = {
    "none", "stop", "length", "error", "cancelled", "deadline"};

constexpr std::string_view finish_reason_name(FinishReason reason) {
  const auto index = static_cast<int32_t>(reason);
  return index >= 0 && index < kNumFinishReasons ? kFinishReasonNames[index]
                                                 : std::string_view("unknown");
}

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0F;  // natural log, under the unmodified logits
};

// Microseconds since the request was added; -1 where it has not happened yet.
struct RequestTimings {
  int64_t scheduled_us = -1;    // first became part of a step: until then it was queued
  int64_t first_token_us = -1;  // the first token of the reply reached the host
  int64_t last_token_us = -1;   // so did the most recent one
};

// One thing that happened to a request in a step: a new token, the end, or both. A request's
// events come in order, at most one per step, and the last one has `finish` set; a preempted
// request just has none for a while.
struct RequestEvent {
  RequestId request = 0;
  // The new token, or -1. The end or stop token that finishes a reply is reported here as well.
  int32_t token = -1;
  // Text that has become certain: never part of a stop string, never half a character. Not aligned
  // with `token`: text may be held back and come with a later event. Joined, it is the reply.
  std::string text;
  bool has_logprob = false;
  float logprob = 0.0F;                    // of `token`
  std::vector<TokenLogprob> top_logprobs;  // most probable first; as many as were asked for
  FinishReason finish = FinishReason::kNone;
  std::string message;  // kError: what went wrong, for people

  // Set in every event.
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache when first scheduled
  int32_t output_tokens = 0;  // so far, this one included
  int32_t num_preemptions = 0;
  RequestTimings timings;

  bool finished() const { return finish != FinishReason::kNone; }
};

}  // namespace encore
