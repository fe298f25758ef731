// Makes series with the names and labels that all of the server's metrics have.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace encore {

using CounterFamily = prometheus::Family<prometheus::Counter>;
using GaugeFamily = prometheus::Family<prometheus::Gauge>;

// Names are given without the prefix "encore:". Everything that is returned lives as long as the
// registry. Borrows it.
class MetricBuilder {
 public:
  MetricBuilder(prometheus::Registry& registry, std::string model_name);

  CounterFamily& counters(const std::string& name, const std::string& help) const;
  GaugeFamily& gauges(const std::string& name, const std::string& help) const;

  // Families of one series, without further labels.
  prometheus::Counter& counter(const std::string& name, const std::string& help) const;
  prometheus::Gauge& gauge(const std::string& name, const std::string& help) const;
  // bounds: upper ones, ascending; a last bucket for everything else is added.
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const prometheus::Histogram::BucketBoundaries& bounds) const;

 private:
  prometheus::Registry& registry_;
  prometheus::Labels labels_;  // of every series
};

// Brings a counter to `total`; one that is there or beyond stays.
void raise_to(prometheus::Counter& counter, double total);

}  // namespace encore
