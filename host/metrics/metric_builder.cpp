#include "metrics/metric_builder.h"

#include <algorithm>
#include <utility>

namespace encore {
namespace {

std::string full_name(const std::string& name) {
  std::string full = "encore:";
  full += name;
  return full;
}

}  // namespace

MetricBuilder::MetricBuilder(prometheus::Registry& registry, std::string model_name)
    : registry_(registry), labels_{{"model_name", std::move(model_name)}} {}

CounterFamily& MetricBuilder::counters(const std::string& name, const std::string& help) const {
  return prometheus::BuildCounter()
      .Name(full_name(name))
      .Help(help)
      .Labels(labels_)
      .Register(registry_);
}

GaugeFamily& MetricBuilder::gauges(const std::string& name, const std::string& help) const {
  return prometheus::BuildGauge()
      .Name(full_name(name))
      .Help(help)
      .Labels(labels_)
      .Register(registry_);
}

prometheus::Counter& MetricBuilder::counter(const std::string& name,
                                            const std::string& help) const {
  return counters(name, help).Add({});
}

prometheus::Gauge& MetricBuilder::gauge(const std::string& name, const std::string& help) const {
  return gauges(name, help).Add({});
}

prometheus::Histogram& MetricBuilder::histogram(
    const std::string& name, const std::string& help,
    const prometheus::Histogram::BucketBoundaries& bounds) const {
  return prometheus::BuildHistogram()
      .Name(full_name(name))
      .Help(help)
      .Labels(labels_)
      .Register(registry_)
      .Add({}, bounds);
}

void raise_to(prometheus::Counter& counter, double total) {
  counter.Increment(std::max(0.0, total - counter.Value()));
}

}  // namespace encore
