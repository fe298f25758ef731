// Chooses a token for each row of logits, by the row's own parameters and random stream.
//
// What is computed is written in kernels/cpu/sample.h (steps 1 to 6, the same Philox stream); sums
// of probability may run in another order, fixed for a row, so a sampled token may differ from the
// CPU's where the running sum passes u within rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

// Layouts equal encore::RowSampling, TokenBias and TokenCount byte for byte.
struct RowSampling {
  float temperature;
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t top_k;
  int32_t num_logprobs;
  uint64_t seed;
  int64_t position;
};
struct TokenBias {
  int32_t token;
  float bias;
};
struct TokenCount {
  int32_t token;
  int32_t in_prompt;
  int32_t in_output;
};

struct SampleArgs {
  LiveRows rows;
  const float* logits = nullptr;  // [rows, vocab_size], not modified
  int64_t logits_stride = 0;
  int32_t vocab_size = 0;
  const int32_t* num_valid_tokens = nullptr;  // [1]
  const RowSampling* params = nullptr;        // [rows]
  const int32_t* bias_start = nullptr;        // [rows + 1]
  const TokenBias* biases = nullptr;
  const int32_t* history_start = nullptr;  // [rows + 1]
  const TokenCount* history = nullptr;
  // Row i's own input token, input_tokens[logit_rows[i]], counts as an output token not yet in the
  // history where token_ids[logit_rows[i]] is negative.
  const int32_t* logit_rows = nullptr;
  const int32_t* token_ids = nullptr;
  const int32_t* input_tokens = nullptr;
  int32_t* tokens = nullptr;        // out [rows]; -1 where the status is not ok
  int32_t* row_status = nullptr;    // out [rows]: 0 ok, 1 not finite, 2 no candidate
  float* token_logprobs = nullptr;  // out [rows], where num_logprobs >= 0
  int32_t* top_tokens = nullptr;    // out [rows, max_logprobs]; -1 past the row's N
  float* top_logprobs = nullptr;    // out [rows, max_logprobs]; -inf past the row's N
  int32_t max_logprobs = 0;
  void* workspace = nullptr;  // sample_workspace_bytes(); may hold anything between steps
};

size_t sample_workspace_bytes(int32_t max_rows, int32_t vocab_size);

// A fixed few kernels. Greedy rows without penalties or log-probabilities cost one pass over their
// logits, spread over many thread blocks.
LaunchError sample(const SampleArgs& args, const Launch& launch);

}  // namespace encore::gpu
