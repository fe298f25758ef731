// Requests of one shape, each with pages of its own, and the memory behind their batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "encore/forward_batch.h"

namespace encore::bench {

class RandomRequests {
 public:
  // `count` requests bring `fresh` tokens each after `cached` ones, and have pages for `capacity`
  // tokens each (0: for these). Pages lie in any order, as they do after a while of serving, from
  // page 0 on: num_pages() of them.
  RandomRequests(int32_t count, int32_t cached, int32_t fresh, int32_t page_size,
                 int32_t capacity = 0)
      : fresh_(fresh) {
    const int32_t pages = (std::max(capacity, cached + fresh) + page_size - 1) / page_size;
    q_start_.push_back(0);
    page_start_.push_back(0);
    for (int32_t i = 0; i < count; ++i) {
      for (int32_t j = 0; j < fresh; ++j) {
        token_ids_.push_back((i * fresh + j) * 7919 % 100000);
        positions_.push_back(cached + j);
      }
      q_start_.push_back((i + 1) * fresh);
      page_start_.push_back((i + 1) * pages);
      kv_len_.push_back(cached + fresh);
      logit_rows_.push_back((i + 1) * fresh - 1);
    }
    page_ids_.resize(static_cast<size_t>(page_start_.back()));
    std::iota(page_ids_.begin(), page_ids_.end(), 0);
    std::mt19937 engine(3);
    std::shuffle(page_ids_.begin(), page_ids_.end(), engine);
    sampling_.resize(kv_len_.size());
    tokens_.resize(kv_len_.size());
    row_status_.resize(kv_len_.size());
  }

  // The same requests after other numbers of cached tokens. REQUIRES: they fit the capacity.
  void set_cached(int32_t cached) {
    for (size_t i = 0; i < positions_.size(); ++i)
      positions_[i] = cached + static_cast<int32_t>(i) % fresh_;
    std::fill(kv_len_.begin(), kv_len_.end(), cached + fresh_);
  }
  // Each request goes on with the token that the step before sampled for it.
  void feed_back() {
    for (size_t i = 0; i < token_ids_.size(); ++i) token_ids_[i] = -1 - static_cast<int32_t>(i);
  }

  // Both borrow from this object.
  ForwardBatch batch() const {
    ForwardBatch batch;
    batch.token_ids = token_ids_;
    batch.positions = positions_;
    batch.q_start = q_start_;
    batch.kv_len = kv_len_;
    batch.page_start = page_start_;
    batch.page_ids = page_ids_;
    batch.logit_rows = logit_rows_;
    batch.sampling = sampling_;
    batch.num_valid_tokens = 128000;
    return batch;
  }
  StepOutput output() {
    StepOutput output;
    output.tokens = tokens_;
    output.row_status = row_status_;
    return output;
  }
  int32_t num_pages() const { return page_start_.back(); }

 private:
  int32_t fresh_;
  std::vector<int32_t> token_ids_, positions_, q_start_, kv_len_, page_start_, page_ids_;
  std::vector<int32_t> logit_rows_, tokens_, row_status_;
  std::vector<RowSampling> sampling_;
};

}  // namespace encore::bench
