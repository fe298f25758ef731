#include "sample_metrics.h"

namespace encore {

MetricsSnapshot sample_snapshot() {
  MetricsSnapshot snapshot;
  EngineStats& engine = snapshot.engine;
  engine.num_waiting = 3;
  engine.num_running = 4;
  engine.num_pages = 80;
  engine.pages_used = 20;
  engine.pages_high_water = 55;
  engine.pages_cached = 36;
  engine.num_steps = 1001;
  engine.num_preemptions = 7;
  engine.steps_ahead = 900;
  engine.prompt_tokens = 12345;
  engine.generation_tokens = 6789;
  engine.prefix_cache_queries = 11000;
  engine.prefix_cache_hits = 4400;
  engine.prefix_cache_evictions = 13;
  engine.buckets_pending = 6;
  engine.finished = {0, 21, 22, 23, 24, 25};
  engine.total_costs = {.schedule_ns = 1'500'000,
                        .build_ns = 2'500'000,
                        .submit_ns = 3'500'000,
                        .wait_ns = 4'000'000'000,
                        .process_ns = 5'500'000};
  engine.last_costs = {.schedule_ns = 1000,
                       .build_ns = 2000,
                       .submit_ns = 3000,
                       .wait_ns = 4'000'000,
                       .process_ns = 5000};
  DispatchStats& dispatch = engine.dispatch;
  dispatch.graph_replays = 960;
  dispatch.eager_fallbacks = 41;
  dispatch.eager_samples = 9;
  dispatch.fallbacks_by_reason[static_cast<size_t>(Reason::kNotCaptured)] = 40;
  dispatch.fallbacks_by_reason[static_cast<size_t>(Reason::kSlower)] = 1;
  dispatch.buckets = {{RunnerKind::kPrefillGraph, 512, 160, 0.0},
                      {RunnerKind::kDecodeGraph, 4, 800, 0.0}};
  snapshot.http = {.connections_open = 31,
                   .connections_accepted = 310,
                   .connections_refused = 32,
                   .accept_errors = 36,
                   .requests = 330,
                   .requests_refused = 34,
                   .clients_gone = 35};
  snapshot.max_running_requests = 16;
  snapshot.page_size = 32;
  snapshot.requests_tokenizing = 2;
  snapshot.ready = true;
  return snapshot;
}

RequestEvent token_event(RequestId request, int32_t number, int64_t first_us, int64_t now_us,
                         FinishReason finish) {
  RequestEvent event;
  event.request = request;
  event.token = 5;
  event.finish = finish;
  event.prompt_tokens = 100;
  event.output_tokens = number;
  event.timings = {.scheduled_us = 10'000, .first_token_us = first_us, .last_token_us = now_us};
  return event;
}

RequestEvent end_event(RequestId request, FinishReason finish) {
  RequestEvent event;
  event.request = request;
  event.finish = finish;
  event.prompt_tokens = 100;
  return event;
}

}  // namespace encore
