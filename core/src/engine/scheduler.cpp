#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>

namespace encore {
namespace {

bool is_decode(const RequestState& request) { return request.num_remaining() == 1; }

bool arrived_earlier(const RequestState* a, const RequestState* b) { return a->id < b->id; }

// The first time only: room for all the request can become, so that decode steps allocate nothing.
void reserve_for_life(RequestState& request, int32_t max_pages) {
  if (request.admitted_before) return;
  request.admitted_before = true;
  request.tokens.reserve(static_cast<size_t>(request.prompt_size) + request.max_output);
  request.pages.reserve(max_pages);
  if (!request.penalised) return;
  const std::span<const int32_t> prompt(request.tokens);
  request.history.reset(request.history_has_prompt ? prompt : prompt.first(0), request.max_output);
}

}  // namespace

Scheduler::Scheduler(const RunnerLimits& limits, const KvInfo& kv, bool prefix_cache)
    : limits_(limits), kv_(kv), pool_(kv.num_pages), cache_(pool_, kv.page_size, prefix_cache) {
  running_.reserve(limits.max_requests);
}

RequestState& Scheduler::add(std::unique_ptr<RequestState> request) {
  RequestState& state = *request;
  next_deadline_ = std::min(next_deadline_, state.deadline);
  requests_.emplace(state.id, std::move(request));
  waiting_.push_back(&state);
  return state;
}

RequestState* Scheduler::find(RequestId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() || found->second->finished() ? nullptr : found->second.get();
}

bool Scheduler::plan_step(bool may_preempt, std::vector<PlannedRequest>& plan) {
  plan.clear();
  const int64_t preemptions_before = num_preemptions_;
  if (!make_room_for_decodes(may_preempt)) return false;
  Budget budget{limits_.max_tokens, limits_.max_history, limits_.max_biases};
  plan_running(true, budget, plan);
  plan_running(false, budget, plan);
  // A preempted request would only take back the pages it was made to give.
  if (num_preemptions_ == preemptions_before) admit_waiting(budget, plan);
  return true;
}

int32_t Scheduler::missing_decode_pages() const {
  int32_t missing = 0;
  for (const RequestState* request : running_) {
    if (!is_decode(*request)) continue;
    const int32_t needed = pages_for(request->num_computed + 1);
    missing += std::max(0, needed - static_cast<int32_t>(request->pages.size()));
  }
  return missing;
}

bool Scheduler::make_room_for_decodes(bool may_preempt) {
  while (missing_decode_pages() > cache_.num_available()) {
    if (!may_preempt) return false;
    preempt_newest();
  }
  for (RequestState* request : running_) {
    if (!is_decode(*request)) continue;
    const int32_t missing =
        pages_for(request->num_computed + 1) - static_cast<int32_t>(request->pages.size());
    take_pages(*request, std::max(missing, 0));
  }
  return true;
}

// REQUIRES: so many are available.
void Scheduler::take_pages(RequestState& request, int32_t count) {
  const Status allocated = cache_.allocate(count, request.pages);
  assert(allocated.ok());
  static_cast<void>(allocated);
}

void Scheduler::preempt_newest() {
  const auto newest = std::max_element(running_.begin(), running_.end(), arrived_earlier);
  RequestState& request = **newest;
  assert(request.steps_in_flight == 0 && request.pending_samples == 0);
  running_.erase(newest);
  free_pages(request);
  request.num_computed = 0;
  ++request.num_preemptions;
  ++num_preemptions_;
  waiting_.insert(std::lower_bound(waiting_.begin(), waiting_.end(), &request, arrived_earlier),
                  &request);
}

// Takes the running decodes, or the running prefills, as far as the budget goes. If one does not
// fit, it comes first in the next step, so that none is left out for long.
void Scheduler::plan_running(bool decodes, Budget& budget, std::vector<PlannedRequest>& plan) {
  auto first_left_out = running_.end();
  for (auto it = running_.begin(); it != running_.end(); ++it) {
    RequestState& request = **it;
    if (request.num_remaining() == 0 || is_decode(request) != decodes) continue;
    if (!plan_request(request, budget, plan) && first_left_out == running_.end()) {
      first_left_out = it;
    }
  }
  if (decodes && first_left_out != running_.end()) {
    std::rotate(running_.begin(), first_left_out, running_.end());
  }
}

void Scheduler::admit_waiting(Budget& budget, std::vector<PlannedRequest>& plan) {
  while (budget.tokens > 0 && !waiting_.empty() && num_running() < limits_.max_requests) {
    if (!admit_next(budget)) return;
    plan_request(*running_.back(), budget, plan);
  }
}

// Only a request that can bring a token to this very step is admitted: it may hold pages that the
// step is still to compute, and must come to nothing with it.
bool Scheduler::admit_next(const Budget& budget) {
  RequestState& request = *waiting_.front();
  reserve_for_life(request, pages_for(request.prompt_size + request.max_output));
  // One token at least remains to be computed, or there would be nothing to sample from.
  cache_.find(request.tokens, (request.num_tokens() - 1) / kv_.page_size, request.pages);
  const auto num_found = static_cast<int32_t>(request.pages.size());
  const int32_t missing = pages_for(request.num_tokens()) - num_found;
  const auto num_kept = static_cast<int32_t>(
      std::ranges::count_if(request.pages, [this](int32_t page) { return pool_.is_kept(page); }));
  const int32_t remaining = request.num_tokens() - num_found * kv_.page_size;
  // Keeps a page for each running request, or the newcomer would soon be preempted again.
  if (missing + num_running() > cache_.num_available() - num_kept ||
      chunk_within(budget, request, remaining) <= 0) {
    request.pages.clear();
    return false;
  }
  for (const int32_t page : request.pages) cache_.retain(page);
  take_pages(request, missing);
  request.num_cached_pages = num_found;
  request.num_computed = num_found * kv_.page_size;
  request.fills_cache = cache_.enabled();
  count_lookup(request);
  waiting_.pop_front();
  running_.push_back(&request);
  return true;
}

// Once a request: when it is admitted for the first time.
void Scheduler::count_lookup(RequestState& request) {
  if (!cache_.enabled() || request.num_preemptions > 0) return;
  request.cached_tokens = request.num_computed;
  num_cache_queries_ += request.prompt_size;
  num_cache_hits_ += request.cached_tokens;
}

// Of the `remaining` tokens, those that can be in this step. Only the last chunk samples; if it
// cannot have its penalties or biases now, all but its last token can still be computed.
int32_t Scheduler::chunk_within(const Budget& budget, const RequestState& request,
                                int32_t remaining) const {
  const int32_t chunk = std::min(remaining, budget.tokens);
  const bool room_to_sample = request.num_history_entries() <= budget.history &&
                              request.num_bias_entries() <= budget.biases;
  return chunk == remaining && !room_to_sample ? chunk - 1 : chunk;
}

bool Scheduler::plan_request(RequestState& request, Budget& budget,
                             std::vector<PlannedRequest>& plan) {
  const int32_t remaining = request.num_remaining();
  const int32_t chunk = chunk_within(budget, request, remaining);
  if (chunk <= 0) return false;
  const bool samples = chunk == remaining;
  budget.tokens -= chunk;
  if (samples) {
    budget.history -= request.num_history_entries();
    budget.biases -= request.num_bias_entries();
  }
  plan.push_back({&request, chunk, samples});
  insert_pages(request, request.num_computed + chunk, false);
  return true;
}

void Scheduler::cache_pages(RequestState& request) {
  insert_pages(request, request.num_computed, true);
}

// Puts into the cache what is whole and known of the first `num_computed` tokens. Where another
// page holds the same already, the request goes over to that one, if it may: its own is complete
// and the other's step has been submitted. No step written before, by whomever, then meets a
// foreign page: the device runs them in order.
void Scheduler::insert_pages(RequestState& request, int32_t num_computed, bool may_swap) {
  if (!request.fills_cache) return;
  const auto num_known = static_cast<int32_t>(request.tokens.size());
  const int32_t num_whole = std::min(num_computed, num_known) / kv_.page_size;
  for (int32_t& index = request.num_cached_pages; index < num_whole; ++index) {
    const int32_t parent = index == 0 ? PrefixCache::kNoPage : request.pages[index - 1];
    if (index > 0 && !cache_.contains(parent)) {
      request.fills_cache = false;
      return;
    }
    int32_t& page = request.pages[index];
    const int32_t cached = cache_.insert(
        page, parent,
        std::span(request.tokens).subspan(int64_t{index} * kv_.page_size, kv_.page_size),
        request.id);
    if (cached == page) continue;
    if (!may_swap) return;
    cache_.retain(cached);
    cache_.release(page);
    page = cached;
  }
}

void Scheduler::forget_pages(RequestState& request) {
  cache_.forget(request.id);
  request.fills_cache = false;
}

// The requests are looked through only when the earliest deadline of any has come.
void Scheduler::find_overdue(TimePoint now, std::vector<RequestState*>& overdue) {
  if (now < next_deadline_) return;
  next_deadline_ = RequestState::kNoDeadline;
  const auto look_at = [&](RequestState* request) {
    if (request->deadline <= now) {
      overdue.push_back(request);
    } else {
      next_deadline_ = std::min(next_deadline_, request->deadline);
    }
  };
  std::ranges::for_each(running_, look_at);
  std::ranges::for_each(waiting_, look_at);
}

void Scheduler::finish(RequestState& request) {
  assert(request.finished());
  const auto running = std::find(running_.begin(), running_.end(), &request);
  if (running != running_.end()) {
    running_.erase(running);
  } else {
    const auto waiting = std::find(waiting_.begin(), waiting_.end(), &request);
    if (waiting != waiting_.end()) waiting_.erase(waiting);
  }
  release(request);
}

void Scheduler::release(RequestState& request) {
  if (!request.finished() || request.steps_in_flight > 0) return;
  free_pages(request);
  requests_.erase(request.id);
}

// The last page first, as the prefix cache wants it.
void Scheduler::free_pages(RequestState& request) {
  for (auto page = request.pages.rbegin(); page != request.pages.rend(); ++page) {
    cache_.release(*page);
  }
  request.pages.clear();
  request.num_cached_pages = 0;
}

std::vector<RequestState*> Scheduler::unfinished() const {
  std::vector<RequestState*> all(waiting_.begin(), waiting_.end());
  all.insert(all.end(), running_.begin(), running_.end());
  return all;
}

}  // namespace encore
