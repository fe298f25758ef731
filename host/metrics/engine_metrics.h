// What the engine counts, as metrics.
#pragma once

#include <array>
#include <cstdint>

#include "encore/reason.h"
#include "encore/runner.h"
#include "engine/engine.h"
#include "metrics/metric_builder.h"

namespace encore {

// One thread at a time. Borrows the builder's registry.
class EngineMetrics {
 public:
  explicit EngineMetrics(const MetricBuilder& build);

  // Counters are raised to `stats`, never lowered.
  void set(const EngineStats& stats);
  // Of the KV cache, in tokens; a gateway that routes by prefix wants it.
  void set_page_size(int32_t page_size, int32_t num_pages);

 private:
  static constexpr int32_t kNumStages = 5;

  void set_requests(const EngineStats& stats);
  void set_pages(const EngineStats& stats);
  void set_steps(const EngineStats& stats);
  void set_dispatch(const DispatchStats& stats);
  static std::array<int64_t, kNumStages> stages(const StepCosts& costs);

  prometheus::Gauge& running_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  std::array<prometheus::Counter*, kNumFinishReasons> finished_{};  // kNone: null
  prometheus::Counter& preemptions_;

  prometheus::Gauge& kv_usage_;
  prometheus::Gauge* pages_used_ = nullptr;
  prometheus::Gauge* pages_cached_ = nullptr;
  prometheus::Gauge* pages_free_ = nullptr;
  prometheus::Gauge& pages_high_water_;
  GaugeFamily& cache_config_;
  prometheus::Gauge* cache_config_now_ = nullptr;
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  prometheus::Counter& prefix_evictions_;

  prometheus::Counter& steps_;
  prometheus::Counter& steps_ahead_;
  std::array<prometheus::Counter*, kNumStages> step_seconds_{};
  std::array<prometheus::Gauge*, kNumStages> last_step_seconds_{};

  CounterFamily& replays_;
  std::array<prometheus::Counter*, kNumReasons> fallbacks_{};  // kNone: null
  prometheus::Counter& eager_samples_;
  prometheus::Gauge& buckets_pending_;
};

}  // namespace encore
