// Histograms of what requests go through, from their events.
#pragma once

#include <cstddef>

#include "engine/request.h"
#include "metrics/metric_builder.h"
#include "metrics/token_times.h"

namespace encore {

// observe() by one thread; the histograms may be read meanwhile. Borrows the builder's registry.
class RequestMetrics {
 public:
  explicit RequestMetrics(const MetricBuilder& build);

  void observe(const RequestEvent& event);

  // Requests that have had a token and no end yet.
  size_t num_live() const { return token_times_.size(); }

 private:
  void observe_token(const RequestEvent& event);
  void observe_end(const RequestEvent& event);

  TokenTimes token_times_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& inter_token_;
  prometheus::Histogram& end_to_end_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& inference_;
  prometheus::Histogram& prefill_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& per_output_token_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generation_tokens_;
};

}  // namespace encore
