// A step between its planning and its results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/runner.h"
#include "engine/dispatch.h"
#include "engine/request_state.h"

namespace encore {

// Who takes part in a step, and the memory its results go to. Reused from step to step; the memory
// never moves while a runner may write to it.
class SubmittedStep {
 public:
  // Makes room for the largest step.
  void reserve(const RunnerLimits& limits) {
    const auto rows = static_cast<size_t>(limits.max_requests);
    plan.reserve(rows);
    tokens_.resize(rows);
    row_status_.resize(rows);
    logprobs_.resize(rows);
    top_tokens_.resize(rows * limits.max_logprobs);
    top_logprobs_.resize(rows * limits.max_logprobs);
  }

  // Where the results of `batch` are to go: as much as its rows ask for.
  const StepOutput& prepare_output(const ForwardBatch& batch) {
    int32_t most_logprobs = -1;
    for (const RowSampling& row : batch.sampling) {
      most_logprobs = std::max(most_logprobs, row.num_logprobs);
    }
    const auto rows = static_cast<size_t>(batch.num_logit_rows());
    output = {};
    output.tokens = std::span(tokens_).first(rows);
    output.row_status = std::span(row_status_).first(rows);
    if (most_logprobs >= 0) output.logprobs = std::span(logprobs_).first(rows);
    if (most_logprobs > 0) {
      output.top_logprobs_width = most_logprobs;
      output.top_tokens = std::span(top_tokens_).first(rows * most_logprobs);
      output.top_logprobs = std::span(top_logprobs_).first(rows * most_logprobs);
    }
    return output;
  }

  std::vector<PlannedRequest> plan;
  StepOutput output;
  Dispatch dispatch;
  Ticket ticket = 0;
  std::chrono::steady_clock::time_point submitted_at;

 private:
  std::vector<int32_t> tokens_;      // [max_requests]
  std::vector<int32_t> row_status_;  // [max_requests]
  std::vector<float> logprobs_;      // [max_requests]
  std::vector<int32_t> top_tokens_;  // [max_requests, max_logprobs]
  std::vector<float> top_logprobs_;  // [max_requests, max_logprobs]
};

}  // namespace encore
