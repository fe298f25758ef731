// Decides which requests take part in a step, and which KV pages they hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "encore/backend.h"
#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/request_state.h"

namespace encore {

// First come, first served. A request is admitted when the pages of all its known tokens are to be
// had, and grows page by page as it decodes. Where pages run out, the newest request gives back all
// of its own and waits to be recomputed; the oldest can therefore always go on.
//
// With a prefix cache, a request takes the whole pages that its tokens begin with from there and
// computes the rest: one token at least, and never into a page that it shares. Pages enter the
// cache when the step that computes them is planned, so that requests of one step share already: a
// step writes a layer's keys and values before its attention reads them, and steps run in order.
//
// One thread at a time. Owns the requests.
class Scheduler {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Scheduler(const RunnerLimits& limits, const KvInfo& kv, bool prefix_cache);

  RequestState& add(std::unique_ptr<RequestState> request);
  // Null if there is no such request, or only what steps in flight have left of it.
  RequestState* find(RequestId id);

  // Fills `plan` for the next step: decodes first, then prefill chunks and admissions as far as the
  // budget goes. Empty if no request can bring a token now.
  // With `may_preempt` false it returns false, leaving `plan` empty, where pages would have to be
  // taken from someone. REQUIRES, if true: no step is in flight.
  bool plan_step(bool may_preempt, std::vector<PlannedRequest>& plan);

  // Call when more of a request's tokens are known or computed: pages that have become whole enter
  // the cache. REQUIRES: every step planned so far was submitted, or its requests forgotten.
  void cache_pages(RequestState& request);
  // Takes the pages that the request has put into the cache out of it again: their content is not
  // to be trusted, or was never computed.
  void forget_pages(RequestState& request);

  // Appends the requests whose deadline is not after `now` to `overdue`.
  void find_overdue(TimePoint now, std::vector<RequestState*>& overdue);

  // Takes a request out of the batch or queue. Its pages are free, and the request is gone, once no
  // step in flight uses them: now, or in the release() after the last of these steps.
  void finish(RequestState& request);
  // Call when a step that `request` was part of is done.
  void release(RequestState& request);

  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  const PagePool& pages() const { return pool_; }
  // Tokens of prompts looked up in the prefix cache, once a request, and those found.
  int64_t num_cache_queries() const { return num_cache_queries_; }
  int64_t num_cache_hits() const { return num_cache_hits_; }
  int64_t num_cache_evictions() const { return cache_.num_evictions(); }
  // Every request not finished yet, for ending them all.
  std::vector<RequestState*> unfinished() const;

 private:
  // What is left of a step's limits while it is planned.
  struct Budget {
    int32_t tokens;
    int32_t history;
    int32_t biases;
  };

  int32_t pages_for(int32_t num_tokens) const {
    return (num_tokens + kv_.page_size - 1) / kv_.page_size;
  }
  int32_t missing_decode_pages() const;
  bool make_room_for_decodes(bool may_preempt);
  void preempt_newest();
  void plan_running(bool decodes, Budget& budget, std::vector<PlannedRequest>& plan);
  void admit_waiting(Budget& budget, std::vector<PlannedRequest>& plan);
  bool admit_next(const Budget& budget);
  void take_pages(RequestState& request, int32_t count);
  void count_lookup(RequestState& request);
  int32_t chunk_within(const Budget& budget, const RequestState& request, int32_t remaining) const;
  bool plan_request(RequestState& request, Budget& budget, std::vector<PlannedRequest>& plan);
  void insert_pages(RequestState& request, int32_t num_computed, bool may_swap);
  void free_pages(RequestState& request);

  RunnerLimits limits_;
  KvInfo kv_;
  PagePool pool_;
  PrefixCache cache_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::deque<RequestState*> waiting_;  // by id, that is, by arrival
  std::vector<RequestState*> running_;
  TimePoint next_deadline_ = RequestState::kNoDeadline;  // none is earlier
  int64_t num_preemptions_ = 0;
  int64_t num_cache_queries_ = 0;
  int64_t num_cache_hits_ = 0;
};

}  // namespace encore
