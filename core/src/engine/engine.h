// The engine: one scheduler for every verb and for the server.
//
//   auto engine = Engine::create(model, kv, std::move(graphs), options);
//   auto id = (*engine)->add({.prompt = ids, .max_tokens = 64});
//   std::vector<RequestEvent> events;
//   for (bool more = true; more;) {
//     Result<bool> stepped = (*engine)->step(events);
//     for (const RequestEvent& event : events) { ... }   // also if stepped is an error
//     more = stepped.ok() && *stepped;
//   }
//
// Each step first gives every decoding request its one token, then spends what is left of
// max_tokens on prefill chunks in order of arrival, and runs as one launch. A request's text
// depends on its prompt, parameters and seed alone: not on its neighbours, on chunking, on what the
// prefix cache holds, or on having been preempted. docs/scheduling.md has the whole story.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "encore/backend.h"
#include "encore/capture.h"
#include "encore/status.h"
#include "engine/batch_builder.h"
#include "engine/dispatch.h"
#include "engine/lazy_capture.h"
#include "engine/log.h"
#include "engine/request.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "engine/submitted_step.h"
#include "engine/token_text.h"

namespace encore {

struct EngineOptions {
  // The limits that the runners were captured with. max_requests run at a time, max_tokens is the
  // budget of new tokens of a step, max_context is prompt and reply together.
  RunnerLimits limits;
  int32_t num_valid_tokens = 0;     // ids from here on have no text; neither taken nor sampled
  std::vector<int32_t> end_tokens;  // the model's, from generation_config.json; may be several
  TokenTextFactory make_text;       // empty: events carry no text, stop strings are refused
  DispatchOptions dispatch;
  // Submits a step before the previous one's tokens have reached the host, wherever that needs no
  // preemption. A request that turns out to have ended wastes its row of that one step.
  bool submit_ahead = false;
  // Keeps whole pages of keys and values for later requests that begin with the same tokens, until
  // somebody needs the room.
  bool prefix_cache = true;
  int64_t step_timeout_us = -1;      // how long a step may take; < 0: no limit
  int32_t guard_check_interval = 0;  // steps between Model::check_guards calls; 0: never
  LogSink log;                       // may be empty
  // Told of each bucket that was captured between steps, on the thread that steps; may be empty.
  std::function<void(RunnerKind kind, const CaptureReport& report)> captured;
};

// Host time spent on steps, in nanoseconds.
struct StepCosts {
  int64_t schedule_ns = 0;  // who takes part, pages
  int64_t build_ns = 0;     // the ForwardBatch
  int64_t submit_ns = 0;    // choosing the runner and Runner::submit
  int64_t wait_ns = 0;      // Runner::wait: the device's time the host could not use
  int64_t process_ns = 0;   // tokens to events: detokenising, stops, finishing

  int64_t host_ns() const { return schedule_ns + build_ns + submit_ns + process_ns; }
};

struct EngineStats {
  int32_t num_waiting = 0;  // added or preempted, not in the running batch
  int32_t num_running = 0;
  int32_t num_pages = 0;
  int32_t pages_used = 0;
  int32_t pages_high_water = 0;  // most pages ever used at once
  int32_t pages_cached = 0;      // held by no request, kept by the prefix cache; not in pages_used
  int32_t pages_free = 0;        // the rest
  int64_t num_steps = 0;
  int64_t num_preemptions = 0;
  int64_t steps_ahead = 0;  // submitted before the previous step's tokens were known
  // Of prompts, computed in steps: not those found in the prefix cache; those computed again after
  // preemption too.
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;  // sent in events
  // Tokens of prompts looked up in the prefix cache, once a request, and those found there.
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  int64_t prefix_cache_evictions = 0;  // pages given up for others
  int32_t buckets_pending = 0;         // of lazily captured graphs, still to be captured
  std::array<int64_t, kNumFinishReasons> finished{};  // requests by FinishReason
  StepCosts total_costs;
  StepCosts last_costs;
  DispatchStats dispatch;
};

// Threads: step() by one thread at a time; add(), cancel(), idle() and stats() by any thread at any
// time, also during a step. Lifetime: borrows `model` and `kv`, owns the runners; destroy it before
// both. Destroying it drops what is unfinished without events.
class Engine {
 public:
  // Errors: kInvalidArgument if a limit is not positive, max_tokens is below max_requests, an end
  // token is out of range, or `graphs` has no eager runner.
  static Result<std::unique_ptr<Engine>> create(Model& model, KvCache& kv, GraphsCapture graphs,
                                                EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request and returns at once.
  // Errors, naming value and limit: kInvalidArgument for an empty prompt, an id out of range, a
  // prompt that leaves no room for a reply in the context, a parameter out of range, or a request
  // that could never fit the KV cache even alone; the engine's own error once a step has failed.
  Result<RequestId> add(RequestOptions options);

  // Queues several together, all or none: choices of one prompt, for example, which then share its
  // pages. Ids in order.
  // Errors: as add(), for the first that is refused.
  Result<std::vector<RequestId>> add_all(std::vector<RequestOptions> options);

  // Ends a request at the start of the next step, with a kCancelled event. Its pages are free once
  // no submitted step uses them.
  // Errors: kNotFound if it was never added or has finished.
  Status cancel(RequestId id);

  // Runs one step and replaces `events` by what it brought: possibly nothing (a prefill chunk).
  // Returns whether work is left: while false, a call does nothing and returns at once. Allocates
  // nothing in a steady state, as long as the caller reuses `events` and text deltas are short.
  // A step that is refused before it runs (no graph although require_graph is set, an inconsistent
  // batch) ends its requests with kError events, and the engine goes on.
  // Errors: the device's, if a step failed or timed out: `events` then ends every request, and the
  // engine accepts nothing more.
  Result<bool> step(std::vector<RequestEvent>& events);

  // Whether no request is queued, running or being cleaned up.
  bool idle() const;

  // As of the last step.
  EngineStats stats() const;

  // Tokens of prompt and reply that one request may have: the context limit, or less if the KV
  // cache is smaller.
  int32_t max_request_tokens() const;

 private:
  using Clock = std::chrono::steady_clock;

  Engine(Model& model, const KvInfo& kv, GraphsCapture graphs, EngineOptions options);

  void take_arrivals(Clock::time_point now, std::vector<RequestEvent>& events);
  Result<std::vector<std::unique_ptr<RequestState>>> make_requests(
      std::vector<RequestOptions> options) const;
  Status submit_step(bool ahead, std::vector<RequestEvent>& events);
  Status submit_planned(SubmittedStep& step, std::vector<RequestEvent>& events);
  void note_submitted(SubmittedStep& step);
  Status await_step(std::vector<RequestEvent>& events);
  void capture_bucket();
  void process_step(SubmittedStep& step, std::vector<RequestEvent>& events);
  void process_row(RequestState& request, const StepOutput& output, int32_t row,
                   std::vector<RequestEvent>& events);
  Status check_guards();
  void fail(RequestState& request, std::string_view message, std::vector<RequestEvent>& events);
  void end(RequestState& request, FinishReason reason, std::string_view message,
           std::vector<RequestEvent>& events);
  void close(RequestState& request);
  Status fail_all(const Status& error, std::vector<RequestEvent>& events);
  void publish_stats(const StepCosts& costs);

  Model& model_;
  const KvInfo kv_;
  const EngineOptions options_;
  // A ring; more than one is in flight only with submit_ahead. Outlives the runners, which write to
  // its memory.
  std::array<SubmittedStep, 2> steps_;
  GraphsCapture graphs_;

  // Used by step() alone.
  Scheduler scheduler_;
  BatchBuilder builder_;
  LazyCapture lazy_;
  Dispatcher dispatcher_;
  int32_t oldest_step_ = 0;
  Clock::time_point last_step_done_;
  Clock::time_point last_capture_;  // between steps
  StepCosts costs_;                 // of the step being made
  std::vector<std::unique_ptr<RequestState>> arrivals_;
  std::vector<RequestId> cancels_;
  std::vector<RequestState*> overdue_;
  EngineStats counts_;

  // Shared with add(), cancel(), idle() and stats().
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<RequestState>> inbox_;
  std::vector<RequestId> cancel_inbox_;
  std::unordered_set<RequestId> live_;  // added, last event not made yet
  RequestId last_id_ = 0;
  int32_t num_in_flight_ = 0;  // steps; written by step() only
  Status broken_;              // why the engine accepts nothing more
  EngineStats stats_;
};

}  // namespace encore
