// Builds steps from what a rule wants to say: this request, so many new tokens, logits or not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/runner.h"
#include "encore/status.h"

namespace encore::check {

// A request: its tokens, how many of them are in the cache, its pages, and how its rows are
// sampled. A token of -1-k stands for what row k of the step before sampled.
struct Request {
  std::vector<int32_t> tokens;
  int32_t cached = 0;
  std::vector<int32_t> pages;
  RowSampling sampling;
  int64_t sampling_position = -1;  // below 0: the position of the token to come
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
};

// `count` tokens of `request` beyond its cached ones enter the cache; logits for the last of them
// if `wants_logits`.
struct Work {
  Request* request = nullptr;
  int32_t count = 1;
  bool wants_logits = true;
};

struct StepOptions {
  bool whole_logits = true;      // false: tokens and log-probabilities only
  int32_t num_top = 0;           // of the most probable tokens; rows say how many they want
  int32_t num_valid_tokens = 0;  // 0: the whole vocabulary
};

// By row: the works that wanted logits, in their order.
struct StepResult {
  std::vector<int32_t> tokens;
  std::vector<int32_t> row_status;
  std::vector<float> logprobs;
  std::vector<std::vector<int32_t>> top_tokens;  // each of StepOptions::num_top
  std::vector<std::vector<float>> top_logprobs;
  std::vector<std::vector<float>> logits;  // each of vocab_size; none unless whole_logits
};

// A batch with the arrays behind it.
struct OwnedBatch {
  std::vector<int32_t> token_ids, positions, q_start, kv_len, page_start, page_ids, logit_rows;
  std::vector<int32_t> bias_start, history_start;
  std::vector<RowSampling> sampling;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
  int32_t num_valid_tokens = 0;
  ForwardBatch view() const;
};

// The arrays that a step's results go to.
struct OwnedOutput {
  OwnedOutput(size_t num_rows, int64_t vocab_size, const StepOptions& options);
  StepOutput view();
  StepResult result() const;

  std::vector<int32_t> tokens, row_status, top_tokens;
  std::vector<float> logprobs, top_logprobs, logits;
  size_t vocab_size;
  int32_t num_top;
};

// Hands out the pages of one KV cache and runs steps on it. One thread; outlived by `kv`.
class StepDriver {
 public:
  StepDriver(int64_t vocab_size, KvCache& kv);

  // Gives `request` the pages that `count` more tokens need, from the highest id down, so that a
  // live request owns the last page. Errors: kOutOfMemory if too few are free.
  Status reserve(Request& request, int32_t count);
  // Takes the pages back; the request may start again.
  void finish(Request& request);
  int32_t num_free_pages() const { return static_cast<int32_t>(free_pages_.size()); }

  Result<OwnedBatch> batch_of(std::span<const Work> work, const StepOptions& options = {});

  // Runs one step and marks its tokens cached. What the plugin leaves unwritten stays -7 or NaN.
  // Errors: the runner's; kFailedPrecondition naming the reason if it cannot run the step.
  Result<StepResult> run(Runner& runner, std::span<const Work> work,
                         const StepOptions& options = {});
  // Appends each sampled token to the request that it is of.
  Result<StepResult> run_and_append(Runner& runner, std::span<const Work> work,
                                    const StepOptions& options = {});

  // A hash of each page's bytes.
  Result<std::vector<uint64_t>> page_hashes() const;

 private:
  int64_t vocab_size_;
  KvCache& kv_;
  std::vector<int32_t> free_pages_;
};

Request make_request(std::vector<int32_t> tokens);

// `count` token ids below `vocab_size`, a fixed function of `seed`.
std::vector<int32_t> random_tokens(uint64_t seed, int32_t count, int64_t vocab_size);

}  // namespace encore::check
