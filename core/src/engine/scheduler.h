// Decides which requests take part in a step, and which KV pages they hold.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "encore/backend.h"
#include "engine/page_pool.h"
#include "engine/request_state.h"

namespace encore {

// First come, first served. A request is admitted when the pages of all its known tokens are free,
// and grows page by page as it decodes. Where pages run out, the newest request gives back all of
// its own and waits to be recomputed; the oldest can therefore always go on.
//
// One thread at a time. Owns the requests.
class Scheduler {
 public:
  Scheduler(const RunnerLimits& limits, const KvInfo& kv);

  RequestState& add(std::unique_ptr<RequestState> request);
  // Null if there is no such request, or only what steps in flight have left of it.
  RequestState* find(RequestId id);

  // Fills `plan` for the next step: decodes first, then prefill chunks and admissions as far as the
  // budget goes. Empty if no request can bring a token now.
  // With `may_preempt` false it returns false, leaving `plan` empty, where pages would have to be
  // taken from someone. REQUIRES, if true: no step is in flight.
  bool plan_step(bool may_preempt, std::vector<PlannedRequest>& plan);

  // Takes a request out of the batch or queue. Its pages are free, and the request is gone, once no
  // step in flight uses them: now, or in the release() after the last of these steps.
  void finish(RequestState& request);
  // Call when a step that `request` was part of is done.
  void release(RequestState& request);

  int32_t num_waiting() const { return static_cast<int32_t>(waiting_.size()); }
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  int64_t num_preemptions() const { return num_preemptions_; }
  const PagePool& pages() const { return pool_; }
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
  bool admit_next();
  bool plan_request(RequestState& request, Budget& budget, std::vector<PlannedRequest>& plan);
  void free_pages(RequestState& request);

  RunnerLimits limits_;
  KvInfo kv_;
  PagePool pool_;
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::deque<RequestState*> waiting_;  // by id, that is, by arrival
  std::vector<RequestState*> running_;
  int64_t num_preemptions_ = 0;
};

}  // namespace encore
