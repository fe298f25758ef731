#include "metrics/engine_metrics.h"

#include <algorithm>
#include <string>

namespace encore {
namespace {

constexpr std::array<const char*, 5> kStageNames = {"schedule", "build", "submit", "wait",
                                                    "process"};

double as_double(int64_t value) { return static_cast<double>(value); }
double seconds(int64_t ns) { return as_double(ns) / 1e9; }

}  // namespace

EngineMetrics::EngineMetrics(const MetricBuilder& build)
    : running_(build.gauge("num_requests_running", "Requests in the running batch.")),
      prompt_tokens_(build.counter("prompt_tokens_total",
                                   "Tokens of prompts, once more if preempted and recomputed.")),
      generation_tokens_(build.counter("generation_tokens_total", "Tokens generated.")),
      preemptions_(build.counter("num_preemptions_total",
                                 "Times a request gave up its pages to be computed again.")),
      kv_usage_(build.gauge("kv_cache_usage_perc",
                            "Share of the KV cache's pages that requests hold; 1 is all.")),
      pages_high_water_(
          build.gauge("kv_cache_pages_high_water", "Most pages that requests ever held at once.")),
      cache_config_(build.gauges("cache_config_info", "The KV cache: tokens of a page and pages.")),
      prefix_queries_(build.counter("prefix_cache_queries_total",
                                    "Tokens of prompts looked up in the prefix cache.")),
      prefix_hits_(
          build.counter("prefix_cache_hits_total", "Tokens of prompts found in the prefix cache.")),
      prefix_evictions_(build.counter("prefix_cache_evictions_total",
                                      "Pages that the prefix cache gave up for others.")),
      steps_(build.counter("steps_total", "Steps of the engine.")),
      steps_ahead_(build.counter("steps_ahead_total",
                                 "Steps submitted before the previous step's tokens were known.")),
      replays_(build.counters("graph_replays_total",
                              "Steps that a graph ran, by kind and padded size.")),
      eager_samples_(
          build.counter("eager_samples_total", "Steps that ran eagerly only to be measured.")),
      buckets_pending_(build.gauge("graph_buckets_pending",
                                   "Buckets that are still to be captured between steps.")) {
  CounterFamily& finished =
      build.counters("request_success_total", "Requests that ended, by how they did.");
  for (size_t i = 1; i < finished_.size(); ++i) {
    finished_[i] = &finished.Add({{"finished_reason", std::string(kFinishReasonNames[i])}});
  }
  GaugeFamily& pages =
      build.gauges("kv_cache_pages", "Pages: held by requests, kept by the prefix cache, free.");
  pages_used_ = &pages.Add({{"state", "used"}});
  pages_cached_ = &pages.Add({{"state", "cached"}});
  pages_free_ = &pages.Add({{"state", "free"}});
  CounterFamily& step_seconds =
      build.counters("step_seconds_total",
                     "Host time spent on steps, by stage; `wait` is waiting for the device.");
  GaugeFamily& last_step_seconds =
      build.gauges("last_step_seconds", "Host time spent on the last step, by stage.");
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    step_seconds_[i] = &step_seconds.Add({{"stage", kStageNames[i]}});
    last_step_seconds_[i] = &last_step_seconds.Add({{"stage", kStageNames[i]}});
  }
  CounterFamily& fallbacks = build.counters(
      "eager_fallbacks_total", "Steps that ran eagerly although graphs were asked for, by reason.");
  for (size_t i = 1; i < fallbacks_.size(); ++i) {
    fallbacks_[i] = &fallbacks.Add({{"reason", std::string(reason_name(static_cast<Reason>(i)))}});
  }
}

void EngineMetrics::set(const EngineStats& stats) {
  set_requests(stats);
  set_pages(stats);
  set_steps(stats);
  set_dispatch(stats.dispatch);
  buckets_pending_.Set(stats.buckets_pending);
}

void EngineMetrics::set_requests(const EngineStats& stats) {
  running_.Set(stats.num_running);
  // Computed or found: whole prompts, as vLLM counts them.
  raise_to(prompt_tokens_, as_double(stats.prompt_tokens + stats.prefix_cache_hits));
  raise_to(generation_tokens_, as_double(stats.generation_tokens));
  raise_to(preemptions_, as_double(stats.num_preemptions));
  for (size_t i = 1; i < finished_.size(); ++i) {
    raise_to(*finished_[i], as_double(stats.finished[i]));
  }
}

void EngineMetrics::set_pages(const EngineStats& stats) {
  kv_usage_.Set(stats.num_pages > 0 ? as_double(stats.pages_used) / stats.num_pages : 0.0);
  pages_used_->Set(stats.pages_used);
  pages_cached_->Set(stats.pages_cached);
  pages_free_->Set(std::max(0, stats.num_pages - stats.pages_used - stats.pages_cached));
  pages_high_water_.Set(stats.pages_high_water);
  raise_to(prefix_queries_, as_double(stats.prefix_cache_queries));
  raise_to(prefix_hits_, as_double(stats.prefix_cache_hits));
  raise_to(prefix_evictions_, as_double(stats.prefix_cache_evictions));
}

void EngineMetrics::set_page_size(int32_t page_size, int32_t num_pages) {
  if (page_size <= 0 || num_pages <= 0) return;
  prometheus::Gauge& now = cache_config_.Add(
      {{"block_size", std::to_string(page_size)}, {"num_gpu_blocks", std::to_string(num_pages)}});
  if (cache_config_now_ != nullptr && cache_config_now_ != &now) {
    cache_config_.Remove(cache_config_now_);
  }
  cache_config_now_ = &now;
  now.Set(1.0);
}

void EngineMetrics::set_steps(const EngineStats& stats) {
  raise_to(steps_, as_double(stats.num_steps));
  raise_to(steps_ahead_, as_double(stats.steps_ahead));
  const auto total = stages(stats.total_costs);
  const auto last = stages(stats.last_costs);
  for (size_t i = 0; i < total.size(); ++i) {
    raise_to(*step_seconds_[i], seconds(total[i]));
    last_step_seconds_[i]->Set(seconds(last[i]));
  }
}

void EngineMetrics::set_dispatch(const DispatchStats& stats) {
  for (const BucketCount& bucket : stats.buckets) {
    raise_to(replays_.Add({{"kind", std::string(runner_kind_name(bucket.kind))},
                           {"bucket", std::to_string(bucket.bucket)}}),
             as_double(bucket.replays));
  }
  for (size_t i = 1; i < fallbacks_.size(); ++i) {
    raise_to(*fallbacks_[i], as_double(stats.fallbacks_by_reason[i]));
  }
  raise_to(eager_samples_, as_double(stats.eager_samples));
}

std::array<int64_t, EngineMetrics::kNumStages> EngineMetrics::stages(const StepCosts& costs) {
  return {costs.schedule_ns, costs.build_ns, costs.submit_ns, costs.wait_ns, costs.process_ns};
}

}  // namespace encore
