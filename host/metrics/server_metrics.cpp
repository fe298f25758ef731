#include "metrics/server_metrics.h"

#include <prometheus/text_serializer.h>

#include <mutex>
#include <utility>

#include "metrics/engine_metrics.h"
#include "metrics/front_metrics.h"
#include "metrics/metric_builder.h"
#include "metrics/request_metrics.h"

namespace encore {

class ServerMetrics::Impl {
 public:
  explicit Impl(std::string model_name)
      : build_(registry_, std::move(model_name)),
        front_(build_),
        engine_(build_),
        requests_(build_) {}

  void observe(const RequestEvent& event) { requests_.observe(event); }
  void refused(int32_t http_status) { front_.refused(http_status); }
  size_t num_live() const { return requests_.num_live(); }

  std::string render(const MetricsSnapshot& snapshot) {
    const std::lock_guard lock(render_mutex_);
    front_.set(snapshot);
    engine_.set(snapshot.engine);
    engine_.set_page_size(snapshot.page_size, snapshot.engine.num_pages);
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  std::mutex render_mutex_;
  prometheus::Registry registry_;  // owns every series
  MetricBuilder build_;
  FrontMetrics front_;
  EngineMetrics engine_;
  RequestMetrics requests_;
};

ServerMetrics::ServerMetrics(std::string model_name)
    : impl_(std::make_unique<Impl>(std::move(model_name))) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::observe(const RequestEvent& event) { impl_->observe(event); }

void ServerMetrics::refused(int32_t http_status) { impl_->refused(http_status); }

int64_t ServerMetrics::num_live_requests() const { return static_cast<int64_t>(impl_->num_live()); }

std::string ServerMetrics::render(const MetricsSnapshot& snapshot) {
  return impl_->render(snapshot);
}

}  // namespace encore
