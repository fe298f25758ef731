#include "engine/batch_builder.h"

#include <algorithm>
#include <cassert>

namespace encore {

BatchBuilder::BatchBuilder(const RunnerLimits& limits, const KvInfo& kv, int32_t num_valid_tokens)
    : page_size_(kv.page_size), num_valid_tokens_(num_valid_tokens) {
  const auto requests = static_cast<size_t>(limits.max_requests);
  const auto tokens = static_cast<size_t>(limits.max_tokens);
  const size_t pages_per_request =
      (static_cast<size_t>(limits.max_context) + kv.page_size - 1) / kv.page_size;
  token_ids_.reserve(tokens);
  positions_.reserve(tokens);
  q_start_.reserve(requests + 1);
  kv_len_.reserve(requests);
  page_start_.reserve(requests + 1);
  page_ids_.reserve(requests * std::min<size_t>(pages_per_request, kv.num_pages));
  logit_rows_.reserve(requests);
  sampling_.reserve(requests);
  bias_start_.reserve(requests + 1);
  biases_.reserve(limits.max_biases);
  history_start_.reserve(requests + 1);
  history_.reserve(limits.max_history);
}

ForwardBatch BatchBuilder::build(std::span<const PlannedRequest> plan) {
  clear();
  for (const PlannedRequest& planned : plan) {
    const int32_t kv_len = planned.request->num_computed + planned.num_tokens;
    add_tokens(planned);
    add_pages(*planned.request, kv_len);
    if (planned.samples) add_sampling(*planned.request, kv_len);
  }
  ForwardBatch batch;
  batch.token_ids = token_ids_;
  batch.positions = positions_;
  batch.q_start = q_start_;
  batch.kv_len = kv_len_;
  batch.page_start = page_start_;
  batch.page_ids = page_ids_;
  batch.logit_rows = logit_rows_;
  batch.sampling = sampling_;
  if (!biases_.empty()) {
    batch.bias_start = bias_start_;
    batch.biases = biases_;
  }
  if (!history_.empty()) {
    batch.history_start = history_start_;
    batch.history = history_;
  }
  batch.num_valid_tokens = num_valid_tokens_;
  return batch;
}

void BatchBuilder::clear() {
  token_ids_.clear();
  positions_.clear();
  q_start_.assign(1, 0);
  kv_len_.clear();
  page_start_.assign(1, 0);
  page_ids_.clear();
  logit_rows_.clear();
  sampling_.clear();
  bias_start_.assign(1, 0);
  biases_.clear();
  history_start_.assign(1, 0);
  history_.clear();
}

void BatchBuilder::add_tokens(const PlannedRequest& planned) {
  const RequestState& request = *planned.request;
  const auto num_known = static_cast<int32_t>(request.tokens.size());
  const int32_t end = request.num_computed + planned.num_tokens;
  for (int32_t position = request.num_computed; position < end; ++position) {
    assert(position < num_known || (position == num_known && request.pending_row >= 0));
    token_ids_.push_back(position < num_known ? request.tokens[position]
                                              : -1 - request.pending_row);
    positions_.push_back(position);
  }
  q_start_.push_back(static_cast<int32_t>(token_ids_.size()));
}

void BatchBuilder::add_pages(const RequestState& request, int32_t kv_len) {
  kv_len_.push_back(kv_len);
  const int32_t num_pages = (kv_len + page_size_ - 1) / page_size_;
  assert(num_pages <= static_cast<int32_t>(request.pages.size()));
  page_ids_.insert(page_ids_.end(), request.pages.begin(), request.pages.begin() + num_pages);
  page_start_.push_back(static_cast<int32_t>(page_ids_.size()));
}

void BatchBuilder::add_sampling(const RequestState& request, int32_t position) {
  logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()) - 1);
  RowSampling& row = sampling_.emplace_back(request.row);
  row.position = position;
  biases_.insert(biases_.end(), request.biases.begin(),
                 request.biases.begin() + request.num_bias_entries());
  bias_start_.push_back(static_cast<int32_t>(biases_.size()));
  if (request.penalised) {
    const std::span<const TokenCount> entries = request.history.entries();
    history_.insert(history_.end(), entries.begin(), entries.end());
  }
  history_start_.push_back(static_cast<int32_t>(history_.size()));
}

}  // namespace encore
