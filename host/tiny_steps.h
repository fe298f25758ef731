// The steps that the tiny model makes: two prompts in one prefill step, then three decode steps.
#pragma once

#include <cstdint>
#include <vector>

#include "encore/runner.h"
#include "encore/status.h"

namespace encore {

inline constexpr int32_t kTinyMaxRequests = 4;  // two of them padding
inline constexpr int32_t kTinyMaxTokens = 32;   // three of them padding
inline constexpr int32_t kTinyPageSize = 16;    // tokens; the longer request has two pages
inline constexpr int32_t kTinyPagesARun = 3;
inline constexpr int32_t kTinyPages = 4 * kTinyPagesARun;

// Of each step the last token of both requests, in order.
struct TinyResult {
  std::vector<int32_t> tokens;             // sampled greedily
  std::vector<std::vector<float>> logits;  // empty if a runner does not give them
};

// The inputs do not depend on what was sampled, so that a tie does not make runs diverge. Uses the
// pages first_page .. first_page + kTinyPagesARun - 1.
// Errors: the runners' own; the reason and step if one cannot run.
Result<TinyResult> run_tiny_steps(Runner& prefill, Runner& decode, int32_t first_page);

}  // namespace encore
