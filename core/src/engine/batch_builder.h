// Turns a step's plan into the arrays of a ForwardBatch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/forward_batch.h"
#include "engine/request_state.h"

namespace encore {

// Owns the arrays and reuses them: after construction nothing is allocated. One thread at a time.
class BatchBuilder {
 public:
  BatchBuilder(const RunnerLimits& limits, const KvInfo& kv, int32_t num_valid_tokens);

  // The batch of a plan; its spans hold until the next call. A token that the host does not know
  // yet becomes a reference to the row of the previous step that samples it, so the plan may be for
  // a step ahead. Token row i, request i and logits row i are in the plan's order.
  // REQUIRES: each request holds the pages of its tokens, and the plan keeps within the limits.
  ForwardBatch build(std::span<const PlannedRequest> plan);

 private:
  void clear();
  void add_tokens(const PlannedRequest& planned);
  void add_pages(const RequestState& request, int32_t kv_len);
  void add_sampling(const RequestState& request, int32_t position);

  int32_t page_size_;
  int32_t num_valid_tokens_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> q_start_;
  std::vector<int32_t> kv_len_;
  std::vector<int32_t> page_start_;
  std::vector<int32_t> page_ids_;
  std::vector<int32_t> logit_rows_;
  std::vector<RowSampling> sampling_;
  std::vector<int32_t> bias_start_;
  std::vector<TokenBias> biases_;
  std::vector<int32_t> history_start_;
  std::vector<TokenCount> history_;
};

}  // namespace encore
