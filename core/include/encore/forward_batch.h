// One step of the engine as a runner sees it: a ragged batch of requests, and where results go.
//
// Everything is borrowed: a `ForwardBatch` is a set of spans over the caller's arrays. A runner
// copies what it needs before `submit` returns.
#pragma once

#include <cstdint>
#include <span>

namespace encore {

// How one logits row becomes a token. Defaults are greedy with no log-probabilities.
struct RowSampling {
  float temperature = 0.0F;         // at most 1e-4: greedy, ties to the lowest id
  float top_p = 1.0F;               // (0, 1]; 1 is off
  float min_p = 0.0F;               // [0, 1]; 0 is off
  float repetition_penalty = 1.0F;  // > 0; over prompt and reply
  float presence_penalty = 0.0F;    // over the reply
  float frequency_penalty = 0.0F;   // over the reply
  int32_t top_k = 0;                // <= 0 is off
  // -1: no log-probabilities; 0: the sampled token's; N: also the N most probable tokens'.
  int32_t num_logprobs = -1;
  // The random stream is a function of (seed, position) alone, so a request's text depends neither
  // on its neighbours nor on its row.
  uint64_t seed = 0;
  int64_t position = 0;  // of the token being sampled
};

struct TokenBias {
  int32_t token = 0;
  float bias = 0.0F;  // added to the logit; -inf bans the token
};

// A token already in the request, for penalties. One entry per distinct token.
struct TokenCount {
  int32_t token = 0;
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

// r requests bring n new tokens; m of these tokens want logits and are sampled after.
// Request i's new tokens are rows q_start[i] .. q_start[i+1]-1 and are the last ones of its
// kv_len[i] positions; earlier positions are already in the KV cache. A step may mix prefill
// chunks (several tokens) and decodes (one token). Requests may share pages, also ones that another
// request of the same step fills: all keys and values of a layer are written before its attention
// reads any.
struct ForwardBatch {
  std::span<const int32_t>
      token_ids;  // [n]; -1-k is the token that logits row k of the last submitted
                  // step sampled, whether or not the host has seen it
  std::span<const int32_t> positions;     // [n]
  std::span<const int32_t> q_start;       // [r+1], from 0 to n
  std::span<const int32_t> kv_len;        // [r], tokens in the cache after this step
  std::span<const int32_t> page_start;    // [r+1], from 0; request i's pages are
  std::span<const int32_t> page_ids;      // page_ids[page_start[i] .. page_start[i+1]-1], in order;
                                          // position p is in page p / page_size. [page_start[r]]
  std::span<const int32_t> logit_rows;    // [m], token rows that want logits, ascending
  std::span<const RowSampling> sampling;  // [m]
  std::span<const int32_t> bias_start;    // [m+1], or empty: no biases
  std::span<const TokenBias> biases;      // [bias_start[m]]
  std::span<const int32_t> history_start;  // [m+1], or empty: no penalties
  std::span<const TokenCount> history;     // [history_start[m]]; where row's own input token is
                                           // negative, the runner counts that token itself
  int32_t num_valid_tokens = 0;            // ids from here on are never sampled

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_requests() const { return static_cast<int32_t>(kv_len.size()); }
  int32_t num_logit_rows() const { return static_cast<int32_t>(logit_rows.size()); }
};

// What became of one logits row. The numbers are part of the C ABI.
enum class RowStatus : int32_t {
  kOk = 0,
  kNonFinite = 1,    // NaN or +Inf among the logits: no token; the request must end with an error
  kNoCandidate = 2,  // biases ban every token: likewise
};

// Where a step's results go: the caller's memory, valid until `wait` returns.
struct StepOutput {
  std::span<int32_t> tokens;      // [m], -1 where the status is not ok
  std::span<int32_t> row_status;  // [m], RowStatus
  // The natural log of the sampled token's probability under the unmodified logits.
  std::span<float> logprobs;  // [m], or empty if no row wants any
  int32_t top_logprobs_width = 0;
  std::span<int32_t> top_tokens;  // [m, top_logprobs_width], most probable first; -1 past the end
  std::span<float> top_logprobs;  // [m, top_logprobs_width]
  std::span<float> logits;        // [m, vocab_size], or empty: not wanted
};

}  // namespace encore
