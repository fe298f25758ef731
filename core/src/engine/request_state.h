// A request as the engine keeps it, from add() to its last event.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "encore/forward_batch.h"
#include "engine/request.h"
#include "engine/stop_matcher.h"
#include "engine/token_history.h"
#include "engine/token_text.h"

namespace encore {

// Everything about one request. Its logical tokens are the truth; what the KV cache holds of them
// is `num_computed`, which goes back to 0 on preemption. Prefill, decode and recomputation are the
// same thing: bring num_computed up to num_tokens(), and sample at the end.
struct RequestState {
  static constexpr auto kNoDeadline = std::chrono::steady_clock::time_point::max();

  RequestState() : stops({}) {}

  RequestId id = 0;
  std::vector<int32_t> tokens;  // prompt, then the reply as far as the host knows it
  int32_t prompt_size = 0;
  int32_t max_output = 0;  // tokens of the reply, all limits considered
  int32_t min_output = 0;

  RowSampling row;  // all but the position
  bool penalised = false;
  bool history_has_prompt = false;
  TokenHistory history;           // if penalised
  std::vector<TokenBias> biases;  // the caller's, then a ban for each stop token
  int32_t num_caller_biases = 0;
  std::vector<int32_t> stop_tokens;  // sorted; end tokens included unless ignored

  std::unique_ptr<TokenText> text;  // null: no text wanted
  StopMatcher stops;

  std::vector<int32_t> pages;
  // Of the pages, how many from the first on are in the prefix cache.
  int32_t num_cached_pages = 0;
  bool fills_cache = true;      // false once a page it builds on was taken out of the cache
  int32_t cached_tokens = 0;    // of the prompt, found when first admitted
  int32_t num_computed = 0;     // tokens whose keys and values submitted steps write
  int32_t pending_samples = 0;  // tokens that submitted steps sample and the host has not seen
  int32_t pending_row = -1;     // logits row of the newest of them in its step
  int32_t steps_in_flight = 0;  // submitted steps that use the pages

  FinishReason finish = FinishReason::kNone;
  int32_t num_preemptions = 0;
  bool admitted_before = false;
  std::chrono::steady_clock::time_point added_at;
  std::chrono::steady_clock::time_point deadline = kNoDeadline;
  RequestTimings timings;

  bool finished() const { return finish != FinishReason::kNone; }
  int32_t num_output() const { return static_cast<int32_t>(tokens.size()) - prompt_size; }
  // Tokens known or being sampled.
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()) + pending_samples; }
  // New tokens that steps have still to bring; 0 if only results are awaited.
  int32_t num_remaining() const {
    return num_output() + pending_samples >= max_output ? 0 : num_tokens() - num_computed;
  }
  int64_t us_since_added(std::chrono::steady_clock::time_point now) const {
    return std::chrono::duration_cast<std::chrono::microseconds>(now - added_at).count();
  }

  // Entries this request adds to a step that samples it.
  int32_t num_history_entries() const {
    return penalised ? static_cast<int32_t>(history.entries().size()) : 0;
  }
  // Whether the token about to be sampled is too early to be the last.
  bool bans_stops() const { return num_output() + pending_samples < min_output; }
  int32_t num_bias_entries() const {
    return bans_stops() ? static_cast<int32_t>(biases.size()) : num_caller_biases;
  }
};

// A request's part in one step.
struct PlannedRequest {
  RequestState* request = nullptr;
  int32_t num_tokens = 0;  // from position num_computed on
  bool samples = false;    // the last of them wants logits
};

}  // namespace encore
