#include "metrics/request_metrics.h"

namespace encore {
namespace {

// Bounds are vLLM's, so that its dashboards and alerts mean the same here.
const prometheus::Histogram::BucketBoundaries kFirstTokenSeconds = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const prometheus::Histogram::BucketBoundaries kTokenSeconds = {
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
    0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const prometheus::Histogram::BucketBoundaries kRequestSeconds = {
    0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const prometheus::Histogram::BucketBoundaries kTokens = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

double seconds(int64_t us) { return static_cast<double>(us) / 1e6; }

}  // namespace

RequestMetrics::RequestMetrics(const MetricBuilder& build)
    : first_token_(build.histogram("time_to_first_token_seconds",
                                   "From a request's arrival at the engine to its first token.",
                                   kFirstTokenSeconds)),
      inter_token_(build.histogram("inter_token_latency_seconds",
                                   "Between two tokens of a request, every gap.", kTokenSeconds)),
      end_to_end_(build.histogram("e2e_request_latency_seconds",
                                  "From a request's arrival at the engine to its last token.",
                                  kRequestSeconds)),
      queue_(build.histogram("request_queue_time_seconds",
                             "From a request's arrival at the engine to its first step.",
                             kRequestSeconds)),
      inference_(build.histogram("request_inference_time_seconds",
                                 "From a request's first step to its last token.",
                                 kRequestSeconds)),
      prefill_(build.histogram("request_prefill_time_seconds",
                               "From a request's first step to its first token.", kRequestSeconds)),
      decode_(build.histogram("request_decode_time_seconds",
                              "From a request's first token to its last.", kRequestSeconds)),
      per_output_token_(build.histogram("request_time_per_output_token_seconds",
                                        "A request's mean gap between tokens.", kTokenSeconds)),
      prompt_tokens_(
          build.histogram("request_prompt_tokens", "Tokens of a request's prompt.", kTokens)),
      generation_tokens_(
          build.histogram("request_generation_tokens", "Tokens of a request's reply.", kTokens)) {}

void RequestMetrics::observe(const RequestEvent& event) {
  if (event.token >= 0) observe_token(event);
  if (event.finished()) {
    token_times_.take(event.request);
    observe_end(event);
  }
}

void RequestMetrics::observe_token(const RequestEvent& event) {
  const int64_t now_us = event.timings.last_token_us;
  if (now_us < 0) return;
  const int64_t before_us = event.finished() ? token_times_.take(event.request)
                                             : token_times_.exchange(event.request, now_us);
  if (before_us >= 0) {
    inter_token_.Observe(seconds(now_us - before_us));
  } else {
    first_token_.Observe(seconds(event.timings.first_token_us));
  }
}

// One that was cut short says nothing of how long requests take.
void RequestMetrics::observe_end(const RequestEvent& event) {
  if (event.finish != FinishReason::kStop && event.finish != FinishReason::kLength) return;
  const RequestTimings& timings = event.timings;
  if (timings.last_token_us < 0) return;
  end_to_end_.Observe(seconds(timings.last_token_us));
  queue_.Observe(seconds(timings.scheduled_us));
  inference_.Observe(seconds(timings.last_token_us - timings.scheduled_us));
  prefill_.Observe(seconds(timings.first_token_us - timings.scheduled_us));
  const double decode_s = seconds(timings.last_token_us - timings.first_token_us);
  decode_.Observe(decode_s);
  if (event.output_tokens > 1) per_output_token_.Observe(decode_s / (event.output_tokens - 1));
  prompt_tokens_.Observe(event.prompt_tokens);
  generation_tokens_.Observe(event.output_tokens);
}

}  // namespace encore
