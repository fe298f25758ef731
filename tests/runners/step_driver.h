// Builds steps from what a test wants to say: this request, so many new tokens, logits or not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/runner.h"

namespace encore::testing {

// A request's tokens, how many of them are in the cache, and its pages.
struct Sequence {
  std::vector<int32_t> tokens;
  int32_t cached = 0;
  std::vector<int32_t> pages;
  RowSampling sampling;
};

// `count` tokens of `sequence` beyond its cached ones enter the cache; logits for the last of them
// if `wants_logits`.
struct Work {
  Sequence* sequence = nullptr;
  int32_t count = 0;
  bool wants_logits = true;
};

struct StepResult {
  std::vector<int32_t> tokens;
  std::vector<int32_t> row_status;
  std::vector<float> logprobs;
  std::vector<std::vector<float>> logits;
};

// A batch with the arrays behind it.
struct OwnedBatch {
  std::vector<int32_t> token_ids, positions, q_start, kv_len, page_start, page_ids, logit_rows;
  std::vector<RowSampling> sampling;
  int32_t num_valid_tokens = 0;
  ForwardBatch view() const;
};

class StepDriver {
 public:
  StepDriver(const ModelSpec& spec, KvCache& kv);

  // Pages are handed out from the highest id down, so that a live request owns the last page.
  Sequence start(std::vector<int32_t> tokens);
  // Makes room for `count` more tokens.
  void extend(Sequence& sequence, int32_t count);
  void finish(Sequence& sequence);

  OwnedBatch batch_of(const std::vector<Work>& work);

  // Runs one step and marks its tokens cached. Fails the test on an error.
  StepResult run(Runner& runner, const std::vector<Work>& work);
  // Appends the sampled tokens to the sequences that wanted logits.
  StepResult run_and_append(Runner& runner, const std::vector<Work>& work);

  // A hash of each page's bytes.
  std::vector<uint64_t> page_hashes() const;

 private:
  int64_t vocab_size_;
  KvCache& kv_;
  std::vector<int32_t> free_pages_;
};

// `count` token ids below `vocab_size`, a fixed function of `seed`.
std::vector<int32_t> random_tokens(uint64_t seed, int32_t count, int64_t vocab_size);

// `steps` greedy tokens for `prompt`, by `prefill` for the prompt and `decode` for the rest.
std::vector<int32_t> greedy(StepDriver& driver, Runner& prefill, Runner& decode,
                            const std::vector<int32_t>& prompt, int32_t steps);

// The two rows are within the plugin's tolerance (equal bits if it is 0).
void expect_same_logits(const std::vector<float>& found, const std::vector<float>& expected);

}  // namespace encore::testing
