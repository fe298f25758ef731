#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "engine/reply.h"
#include "engine/request_check.h"

namespace encore {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time since `from` to `total_ns`, and returns now.
Clock::time_point lap(Clock::time_point from, int64_t& total_ns) {
  const Clock::time_point now = Clock::now();
  total_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(now - from).count();
  return now;
}

void add_costs(const StepCosts& costs, StepCosts& total) {
  total.schedule_ns += costs.schedule_ns;
  total.build_ns += costs.build_ns;
  total.submit_ns += costs.submit_ns;
  total.wait_ns += costs.wait_ns;
  total.process_ns += costs.process_ns;
}

Status check_limit(const char* name, int64_t value, int64_t minimum) {
  if (value >= minimum) return {};
  return invalid_argument(std::string(name) + " is " + std::to_string(value) +
                          "; it must be at least " + std::to_string(minimum));
}

Status check_options(const EngineOptions& options, const KvInfo& kv, const GraphsCapture& graphs) {
  const RunnerLimits& limits = options.limits;
  ENCORE_RETURN_IF_ERROR(check_limit("max_requests", limits.max_requests, 1));
  ENCORE_RETURN_IF_ERROR(
      check_limit("max_tokens, the budget of a step,", limits.max_tokens, limits.max_requests));
  ENCORE_RETURN_IF_ERROR(check_limit("max_context", limits.max_context, 2));
  ENCORE_RETURN_IF_ERROR(check_limit("max_logprobs", limits.max_logprobs, 0));
  ENCORE_RETURN_IF_ERROR(check_limit("max_history", limits.max_history, 0));
  ENCORE_RETURN_IF_ERROR(check_limit("max_biases", limits.max_biases, 0));
  ENCORE_RETURN_IF_ERROR(check_limit("num_valid_tokens", options.num_valid_tokens, 1));
  ENCORE_RETURN_IF_ERROR(check_limit("the KV cache's page size", kv.page_size, 1));
  ENCORE_RETURN_IF_ERROR(check_limit("the KV cache's number of pages", kv.num_pages, 1));
  if (graphs.eager.runner == nullptr) {
    return invalid_argument("the captured graphs have no eager runner; capture_graphs makes one");
  }
  for (const int32_t token : options.end_tokens) {
    if (token < 0 || token >= options.num_valid_tokens) {
      return invalid_argument("end token id " + std::to_string(token) +
                              " is out of range; ids run from 0 to " +
                              std::to_string(options.num_valid_tokens - 1));
    }
  }
  return {};
}

// A deadline further away than the clock can count is none.
Clock::time_point deadline_after(Clock::time_point start, int64_t deadline_us) {
  const auto room =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::time_point::max() - start);
  if (deadline_us < 0 || deadline_us >= room.count()) return RequestState::kNoDeadline;
  return start + std::chrono::microseconds(deadline_us);
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Model& model, KvCache& kv, GraphsCapture graphs,
                                               EngineOptions options) {
  const KvInfo info = kv.info();
  ENCORE_RETURN_IF_ERROR(check_options(options, info, graphs));
  return std::unique_ptr<Engine>(new Engine(model, info, std::move(graphs), std::move(options)));
}

Engine::Engine(Model& model, const KvInfo& kv, GraphsCapture graphs, EngineOptions options)
    : model_(model),
      kv_(kv),
      options_(std::move(options)),
      graphs_(std::move(graphs)),
      scheduler_(options_.limits, kv, options_.prefix_cache),
      builder_(options_.limits, kv, options_.num_valid_tokens),
      lazy_(graphs_, options_.log),
      dispatcher_(graphs_, options_.dispatch, options_.log, lazy_.pending() ? &lazy_ : nullptr) {
  for (SubmittedStep& step : steps_) step.reserve(options_.limits);
  stats_.num_pages = kv.num_pages;
  stats_.pages_free = kv.num_pages;
}

// Runners may still write to the steps' memory: wait for them, in order.
Engine::~Engine() {
  for (; num_in_flight_ > 0; --num_in_flight_, oldest_step_ ^= 1) {
    const SubmittedStep& step = steps_[oldest_step_];
    if (!step.dispatch.runner->wait(step.ticket, options_.step_timeout_us).ok()) return;
  }
}

Result<RequestId> Engine::add(RequestOptions options) {
  std::vector<RequestOptions> one;
  one.push_back(std::move(options));
  ENCORE_ASSIGN_OR_RETURN(const std::vector<RequestId> ids, add_all(std::move(one)));
  return ids.front();
}

Result<std::vector<RequestId>> Engine::add_all(std::vector<RequestOptions> options) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<RequestState>> requests,
                          make_requests(std::move(options)));
  std::vector<RequestId> ids;
  ids.reserve(requests.size());
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return broken_;
  for (std::unique_ptr<RequestState>& request : requests) {
    request->id = ++last_id_;
    ids.push_back(last_id_);
    live_.insert(last_id_);
    inbox_.push_back(std::move(request));
  }
  return ids;
}

Result<std::vector<std::unique_ptr<RequestState>>> Engine::make_requests(
    std::vector<RequestOptions> options) const {
  std::vector<std::unique_ptr<RequestState>> requests;
  requests.reserve(options.size());
  for (RequestOptions& each : options) {
    const int64_t deadline_us = each.deadline_us;
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<RequestState> request,
                            make_request(std::move(each), options_, kv_));
    request->added_at = Clock::now();
    request->deadline = deadline_after(request->added_at, deadline_us);
    requests.push_back(std::move(request));
  }
  return requests;
}

Status Engine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (live_.count(id) == 0) {
    return not_found("there is no request " + std::to_string(id) + ", or it has finished");
  }
  cancel_inbox_.push_back(id);
  return {};
}

bool Engine::idle() const {
  const std::lock_guard lock(mutex_);
  return live_.empty() && num_in_flight_ == 0;
}

EngineStats Engine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    stats.num_waiting += static_cast<int32_t>(inbox_.size());
  }
  stats.dispatch = dispatcher_.stats();
  return stats;
}

int32_t Engine::max_request_tokens() const { return request_token_limit(options_.limits, kv_); }

Result<bool> Engine::step(std::vector<RequestEvent>& events) {
  events.clear();
  if (!broken_.ok()) return broken_;  // written by this thread only
  costs_ = {};
  const Clock::time_point time = Clock::now();
  take_arrivals(time, events);
  lap(time, costs_.schedule_ns);
  Status status;
  if (num_in_flight_ == 0) status = submit_step(false, events);
  if (status.ok() && options_.submit_ahead && num_in_flight_ == 1) {
    status = submit_step(true, events);
  }
  if (status.ok() && num_in_flight_ > 0) {
    status = await_step(events);
    if (status.ok() && lazy_.pending()) capture_bucket();
  }
  if (!status.ok()) return fail_all(status, events);
  publish_stats(costs_);
  return !idle();
}

// New requests, cancels and deadlines: what changes between steps.
void Engine::take_arrivals(Clock::time_point now, std::vector<RequestEvent>& events) {
  {
    const std::lock_guard lock(mutex_);
    std::swap(arrivals_, inbox_);
    std::swap(cancels_, cancel_inbox_);
  }
  for (std::unique_ptr<RequestState>& request : arrivals_) scheduler_.add(std::move(request));
  arrivals_.clear();
  for (const RequestId id : cancels_) {
    RequestState* request = scheduler_.find(id);
    if (request != nullptr) end(*request, FinishReason::kCancelled, {}, events);
  }
  cancels_.clear();
  scheduler_.find_overdue(now, overdue_);
  for (RequestState* request : overdue_) end(*request, FinishReason::kDeadline, {}, events);
  overdue_.clear();
}

// Plans, builds and submits a step, if there is anything to do. With `ahead` it is skipped where
// it would have to take pages from a request whose step is in flight.
Status Engine::submit_step(bool ahead, std::vector<RequestEvent>& events) {
  Clock::time_point time = Clock::now();
  SubmittedStep& step = steps_[ahead ? oldest_step_ ^ 1 : oldest_step_];
  const int64_t preemptions_before = scheduler_.num_preemptions();
  const bool planned = scheduler_.plan_step(!ahead, step.plan);
  if (preemptions_before == 0 && scheduler_.num_preemptions() > 0 && options_.log) {
    options_.log(LogLevel::kWarn,
                 "the KV cache is full: the newest request waits to be computed again; raise "
                 "kv_cache.max_tokens or lower max_running_requests (further ones are counted)");
  }
  lap(time, costs_.schedule_ns);
  if (!planned || step.plan.empty()) {
    if (!ahead && scheduler_.num_running() + scheduler_.num_waiting() > 0) {
      return internal_error("the scheduler finds no work although requests are unfinished");
    }
    return {};
  }
  ENCORE_RETURN_IF_ERROR(submit_planned(step, events));
  if (ahead && num_in_flight_ == 2) ++counts_.steps_ahead;
  return {};
}

Status Engine::submit_planned(SubmittedStep& step, std::vector<RequestEvent>& events) {
  Clock::time_point time = Clock::now();
  const ForwardBatch batch = builder_.build(step.plan);
  const StepOutput& output = step.prepare_output(batch);
  time = lap(time, costs_.build_ns);
  // Taken before submit(): a device without a queue runs the whole step inside it.
  step.submitted_at = time;
  Result<Dispatch> dispatch = dispatcher_.choose(batch, output);
  Result<Ticket> ticket =
      dispatch.ok() ? dispatch->runner->submit(batch, output) : Result<Ticket>(dispatch.status());
  lap(time, costs_.submit_ns);
  if (!ticket.ok()) {
    const bool nothing_ran =
        !dispatch.ok() || ticket.status().code() == StatusCode::kInvalidArgument;
    if (!nothing_ran) return ticket.status();
    for (const PlannedRequest& planned : step.plan) {
      fail(*planned.request, ticket.status().message(), events);
    }
    return {};
  }
  step.dispatch = *dispatch;
  step.ticket = *ticket;
  dispatcher_.submitted(step.dispatch);
  note_submitted(step);
  return {};
}

// The requests' accounts run ahead of the results: what was submitted counts as computed.
void Engine::note_submitted(SubmittedStep& step) {
  int32_t row = 0;
  for (const PlannedRequest& planned : step.plan) {
    RequestState& request = *planned.request;
    if (request.timings.scheduled_us < 0) {
      request.timings.scheduled_us = request.us_since_added(step.submitted_at);
    }
    counts_.prompt_tokens +=
        std::clamp(request.prompt_size - request.num_computed, 0, planned.num_tokens);
    request.num_computed += planned.num_tokens;
    ++request.steps_in_flight;
    if (planned.samples) {
      ++request.pending_samples;
      request.pending_row = row++;
    }
  }
  const std::lock_guard lock(mutex_);
  ++num_in_flight_;
}

Status Engine::await_step(std::vector<RequestEvent>& events) {
  Clock::time_point time = Clock::now();
  SubmittedStep& step = steps_[oldest_step_];
  Status waited = step.dispatch.runner->wait(step.ticket, options_.step_timeout_us);
  if (waited.code() == StatusCode::kDeadlineExceeded) return waited;  // it may still finish
  {
    const std::lock_guard lock(mutex_);
    --num_in_flight_;
  }
  oldest_step_ ^= 1;
  ENCORE_RETURN_IF_ERROR(waited);
  time = lap(time, costs_.wait_ns);
  // A step submitted ahead began when the one before it was done.
  const Clock::time_point began = std::max(step.submitted_at, last_step_done_);
  last_step_done_ = time;
  // A capture in between would count as the step's time.
  if (step.submitted_at > last_capture_) {
    dispatcher_.record(step.dispatch,
                       std::chrono::duration_cast<std::chrono::microseconds>(time - began).count());
  }
  ++counts_.num_steps;
  process_step(step, events);
  lap(time, costs_.process_ns);
  return check_guards();
}

// One a step: no request waits for more than that.
void Engine::capture_bucket() {
  const LazyCapture::Captured captured = lazy_.capture_next();
  last_capture_ = Clock::now();
  if (options_.captured) options_.captured(captured.kind, captured.report);
}

void Engine::process_step(SubmittedStep& step, std::vector<RequestEvent>& events) {
  int32_t row = 0;
  for (const PlannedRequest& planned : step.plan) {
    RequestState& request = *planned.request;
    if (planned.samples) {
      --request.pending_samples;
      if (!request.finished()) process_row(request, step.output, row, events);
      ++row;
    } else if (!request.finished()) {
      scheduler_.cache_pages(request);
    }
    --request.steps_in_flight;    // the last thing, as it keeps the request alive
    scheduler_.release(request);  // may destroy it
  }
}

void Engine::process_row(RequestState& request, const StepOutput& output, int32_t row,
                         std::vector<RequestEvent>& events) {
  const int32_t token = output.tokens[row];
  if (output.row_status[row] != static_cast<int32_t>(RowStatus::kOk)) {
    fail(request,
         "the model produced NaN or infinite logits at position " +
             std::to_string(request.tokens.size()) + "; the reply cannot go on",
         events);
    return;
  }
  if (token < 0 || token >= options_.num_valid_tokens) {
    fail(request,
         "the backend sampled token id " + std::to_string(token) + "; ids run from 0 to " +
             std::to_string(options_.num_valid_tokens - 1) + ": the plugin is defective",
         events);
    return;
  }
  request.timings.last_token_us = request.us_since_added(last_step_done_);
  if (request.timings.first_token_us < 0) {
    request.timings.first_token_us = request.timings.last_token_us;
  }
  ++counts_.generation_tokens;
  RequestEvent& event = events.emplace_back();
  accept_token(request, token, event);
  fill_logprobs(request, output, row, event);
  describe(request, event);
  scheduler_.cache_pages(request);
  if (request.finished()) close(request);
}

Status Engine::check_guards() {
  const int32_t interval = options_.guard_check_interval;
  if (interval <= 0 || counts_.num_steps % interval != 0) return {};
  return model_.check_guards();
}

// Ends a request whose keys and values may be wrong: nobody is to build on them.
void Engine::fail(RequestState& request, std::string_view message,
                  std::vector<RequestEvent>& events) {
  scheduler_.forget_pages(request);
  end(request, FinishReason::kError, message, events);
}

// Ends a request for a reason other than its own tokens.
void Engine::end(RequestState& request, FinishReason reason, std::string_view message,
                 std::vector<RequestEvent>& events) {
  request.finish = reason;
  RequestEvent& event = events.emplace_back();
  event.message = message;
  // What a failed request said last may be wrong, like the rest of it.
  if (reason != FinishReason::kError) finish_text(request, event.text);
  describe(request, event);
  close(request);
}

// Takes a finished request out of everything but the steps in flight. It may be gone afterwards.
void Engine::close(RequestState& request) {
  ++counts_.finished[static_cast<int32_t>(request.finish)];
  {
    const std::lock_guard lock(mutex_);
    live_.erase(request.id);
  }
  scheduler_.finish(request);
}

// The device can no longer be trusted: ends every request, those in the inbox too.
Status Engine::fail_all(const Status& error, std::vector<RequestEvent>& events) {
  {
    const std::lock_guard lock(mutex_);
    broken_ = error;
  }
  take_arrivals(Clock::now(), events);
  for (RequestState* request : scheduler_.unfinished()) fail(*request, error.message(), events);
  publish_stats(costs_);
  return error;
}

void Engine::publish_stats(const StepCosts& costs) {
  counts_.num_waiting = scheduler_.num_waiting();
  counts_.num_running = scheduler_.num_running();
  counts_.num_pages = kv_.num_pages;
  counts_.buckets_pending = lazy_.num_pending();
  counts_.pages_used = scheduler_.pages().num_used();
  counts_.pages_high_water = scheduler_.pages().high_water();
  counts_.pages_cached = scheduler_.pages().num_kept();
  counts_.pages_free = scheduler_.pages().num_free();
  counts_.prefix_cache_queries = scheduler_.num_cache_queries();
  counts_.prefix_cache_hits = scheduler_.num_cache_hits();
  counts_.prefix_cache_evictions = scheduler_.num_cache_evictions();
  counts_.num_preemptions = scheduler_.num_preemptions();
  counts_.last_costs = costs;
  add_costs(costs, counts_.total_costs);
  const std::lock_guard lock(mutex_);
  stats_ = counts_;
}

}  // namespace encore
