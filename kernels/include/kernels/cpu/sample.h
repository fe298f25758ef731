// Chooses a token for each row of logits, by the row's own parameters and random stream.
//
// For one row, over ids below num_valid_tokens (others are never looked at):
//   1. A NaN or +Inf logit (before or after step 3) fails the row: kNotFinite, token -1.
//   2. Log-probabilities are the log-softmax of the raw logits: before bias, penalties and
//      temperature.
//   3. Bias is added; then, for tokens of the history, repetition (a positive logit is divided by
//      it, another multiplied; prompt and output), frequency * output count and presence (output
//      only) are applied. If no logit is above -Inf: kNoCandidate, token -1.
//   4. temperature <= kGreedyTemperature: the highest logit, the lowest id among equals.
//   5. Otherwise logits are divided by temperature, and candidates are kept by min_p (probability
//      at least min_p times the highest), then top_k, then top_p (the shortest prefix, in order of
//      falling probability and rising id, whose share of what is left reaches top_p). One
//      candidate always stays.
//   6. u in [0, 1) is the first 53 bits of Philox 4x32-10 with key seed and counter position; the
//      token is the first, in order of id, where the running sum of probability exceeds u.
// A row's result depends on that row alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

inline constexpr float kGreedyTemperature = 1e-4F;

enum class RowStatus : int32_t {
  kOk = 0,
  kNotFinite = 1,    // a logit was NaN or +Inf
  kNoCandidate = 2,  // every logit was -Inf
};

struct RowSampling {
  float temperature;
  float top_p;               // >= 1: off; values <= 0 keep one candidate
  float min_p;               // <= 0: off; >= 1 keeps the highest (and its equals)
  float repetition_penalty;  // 1: off
  float presence_penalty;    // 0: off
  float frequency_penalty;   // 0: off
  int32_t top_k;             // <= 0 or >= vocabulary: off
  int32_t num_logprobs;      // -1: none; 0: the sampled token's; N: also the N highest
  uint64_t seed;
  int64_t position;  // of the token being sampled; the stream is (seed, position)
};

struct TokenBias {
  int32_t token;
  float bias;  // added to the logit; -Inf forbids the token
};

struct TokenCount {
  int32_t token;
  int32_t in_prompt;  // times in the prompt
  int32_t in_output;  // times in the output so far
};

struct SampleArgs {
  const int32_t* num_rows;          // [1] live rows; outputs from there on are not touched
  const float* logits;              // [rows, vocab], not modified
  int64_t logits_stride;            // elements from row to row
  const int32_t* num_valid_tokens;  // [1] ids from there on are never sampled; at most vocab
  const RowSampling* params;        // [rows]

  // Bias, CSR. Null bias_start: none. Ids out of range are ignored.
  const int32_t* bias_start;  // [rows + 1]
  const TokenBias* biases;

  // Tokens seen so far, CSR, distinct within a row. Null history_start: none. Ids out of range are
  // ignored.
  const int32_t* history_start;  // [rows + 1]
  const TokenCount* history;
  // An output token not yet in the history: row i's own input token, input_tokens[logit_rows[i]],
  // where token_ids[logit_rows[i]] is negative (it was sampled in the step before). token_ids may
  // be null: none.
  const int32_t* logit_rows;    // [rows]
  const int32_t* token_ids;     // [any]
  const int32_t* input_tokens;  // [any]

  int32_t* tokens;        // out [rows]
  int32_t* row_status;    // out [rows], RowStatus
  float* token_logprobs;  // out [rows], where num_logprobs >= 0; may be null
  int32_t* top_tokens;    // out [rows, max_logprobs], falling; -1 past the row's N; may be null
  float* top_logprobs;    // out [rows, max_logprobs]; -Inf past the row's N; null as top_tokens
  int32_t max_logprobs;   // rows asking for more get this many
};

// Splits by rows. Does not synchronise at its end. Scratch: sample_scratch_bytes(vocab) a thread.
using SampleKernel = void (*)(const SampleArgs&, const Worker&);

// The best kernel at or below `level`.
SampleKernel sample_kernel(IsaLevel level);

// Bytes of Worker::scratch that each thread needs.
size_t sample_scratch_bytes(int32_t num_valid_tokens);

}  // namespace encore::kernels
