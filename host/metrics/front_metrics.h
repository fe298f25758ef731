// What is known before a request reaches the engine: connections, refusals, readiness.
#pragma once

#include <array>
#include <cstdint>

#include "metrics/metric_builder.h"
#include "metrics/server_metrics.h"

namespace encore {

// refused() by one thread, set() by one at a time. Borrows the builder's registry.
class FrontMetrics {
 public:
  explicit FrontMetrics(const MetricBuilder& build);

  void refused(int32_t http_status);
  void set(const MetricsSnapshot& snapshot);

 private:
  static constexpr int32_t kFirstStatus = 400;
  static constexpr int32_t kNumStatuses = 200;

  prometheus::Gauge& waiting_;
  prometheus::Gauge& tokenizing_;
  prometheus::Gauge& max_running_;
  prometheus::Gauge& ready_;
  prometheus::Gauge& draining_;
  CounterFamily& refused_;
  std::array<prometheus::Counter*, kNumStatuses> refused_by_status_{};  // null: none yet
  prometheus::Gauge& connections_open_;
  prometheus::Counter& connections_accepted_;
  prometheus::Counter& connections_refused_;
  prometheus::Counter& accept_errors_;
  prometheus::Counter& http_requests_;
  prometheus::Counter& http_requests_refused_;
  prometheus::Counter& clients_gone_;
};

}  // namespace encore
