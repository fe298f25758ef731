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

Scheduler::Scheduler(const RunnerLimits& limits, const KvInfo& kv)
    : limits_(limits), kv_(kv), pool_(kv.num_pages) {
  running_.reserve(limits.max_requests);
}

RequestState& Scheduler::add(std::unique_ptr<RequestState> request) {
  RequestState& state = *request;
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
  while (missing_decode_pages() > pool_.num_free()) {
    if (!may_preempt) return false;
    preempt_newest();
  }
  for (RequestState* request : running_) {
    if (!is_decode(*request)) continue;
    const int32_t missing =
        pages_for(request->num_computed + 1) - static_cast<int32_t>(request->pages.size());
    const Status allocated = pool_.allocate(std::max(missing, 0), request->pages);
    assert(allocated.ok());
    static_cast<void>(allocated);
  }
  return true;
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
    if (!admit_next() || !plan_request(*running_.back(), budget, plan)) return;
  }
}

bool Scheduler::admit_next() {
  RequestState& request = *waiting_.front();
  const int32_t needed = pages_for(request.num_tokens());
  // Keeps a page for each running request, or the newcomer would soon be preempted again.
  if (needed + num_running() > pool_.num_free()) return false;
  reserve_for_life(request, pages_for(request.prompt_size + request.max_output));
  if (!pool_.allocate(needed, request.pages).ok()) return false;
  waiting_.pop_front();
  running_.push_back(&request);
  return true;
}

bool Scheduler::plan_request(RequestState& request, Budget& budget,
                             std::vector<PlannedRequest>& plan) {
  const int32_t remaining = request.num_remaining();
  int32_t chunk = std::min(remaining, budget.tokens);
  const int32_t history = request.num_history_entries();
  const int32_t biases = request.num_bias_entries();
  // Only the last chunk samples; if it cannot have its penalties or biases now, all but its last
  // token can still be computed.
  if (chunk == remaining && (history > budget.history || biases > budget.biases)) --chunk;
  if (chunk <= 0) return false;
  const bool samples = chunk == remaining;
  budget.tokens -= chunk;
  if (samples) {
    budget.history -= history;
    budget.biases -= biases;
  }
  plan.push_back({&request, chunk, samples});
  return true;
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

void Scheduler::free_pages(RequestState& request) {
  for (const int32_t page : request.pages) {
    const Status released = pool_.release(page);
    assert(released.ok());
    static_cast<void>(released);
  }
  request.pages.clear();
}

std::vector<RequestState*> Scheduler::unfinished() const {
  std::vector<RequestState*> all(waiting_.begin(), waiting_.end());
  all.insert(all.end(), running_.begin(), running_.end());
  return all;
}

}  // namespace encore
