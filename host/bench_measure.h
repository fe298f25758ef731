// Times one runner: whole prompts, or decode steps, without the engine around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "encore/reason.h"
#include "encore/runner.h"
#include "encore/status.h"

namespace encore {

// The sizes that a runner under test was made for.
struct BenchSizes {
  int32_t page_size = 16;
  int32_t pages_a_request = 0;  // request i owns pages i * pages_a_request and on
  int32_t max_tokens = 1;       // new tokens a step
  int32_t num_valid_tokens = 1;
};

// What one repetition took, or why the runner cannot do it.
struct BenchSample {
  Reason reason = Reason::kNone;
  double seconds = 0.0;
  int64_t steps = 0;
};

// Makes steps of requests that all have the same length, with random token ids, greedy sampling
// and one logits row for each request whose prompt is complete. One thread; reuses its buffers.
class BenchStepper {
 public:
  explicit BenchStepper(const BenchSizes& sizes);

  // Prefills `batch` prompts of `length` tokens from an empty cache, in steps of at most
  // max_tokens tokens.
  Result<BenchSample> prompts(Runner& runner, int32_t batch, int32_t length);

  // Makes `length` decode steps of `batch` requests that have `depth` tokens in the cache already.
  Result<BenchSample> generation(Runner& runner, int32_t batch, int32_t depth, int32_t length);

  // One step of `batch` requests that bring `num_tokens` tokens each after `depth`, traced.
  // Errors: Runner::trace's; kFailedPrecondition if the runner cannot run the step.
  Result<std::vector<TraceEvent>> trace(Runner& runner, int32_t batch, int32_t depth,
                                        int32_t num_tokens);

 private:
  struct Chunk {
    int32_t request = 0;
    int32_t position = 0;  // of the first token
    int32_t num_tokens = 0;
    bool wants_logits = false;
  };

  Status step(Runner& runner, const std::vector<Chunk>& chunks, BenchSample& sample);
  void build(const std::vector<Chunk>& chunks);
  ForwardBatch batch() const;
  StepOutput output();
  int32_t next_token();

  BenchSizes sizes_;
  uint64_t random_ = 1;
  std::vector<int32_t> token_ids_, positions_, q_start_, kv_len_, page_start_, page_ids_;
  std::vector<int32_t> logit_rows_, sampled_, row_status_;
  std::vector<RowSampling> sampling_;
};

}  // namespace encore
