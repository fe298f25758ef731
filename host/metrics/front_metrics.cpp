#include "metrics/front_metrics.h"

#include <algorithm>
#include <string>

namespace encore {

FrontMetrics::FrontMetrics(const MetricBuilder& build)
    : waiting_(build.gauge("num_requests_waiting",
                           "Requests that wait: for tokenizing, a first step, or to resume.")),
      tokenizing_(build.gauge("num_requests_tokenizing",
                              "Of those that wait, the ones not yet in the engine.")),
      max_running_(build.gauge("max_running_requests", "Requests that can run at a time.")),
      ready_(build.gauge("ready", "1 while requests are served, else 0.")),
      draining_(build.gauge("draining", "1 once no new requests are taken, else 0.")),
      refused_(build.counters("requests_refused_total",
                              "Requests answered with an error before they reached the engine.")),
      connections_open_(build.gauge("http_connections", "Connections that are open.")),
      connections_accepted_(
          build.counter("http_connections_accepted_total", "Connections accepted.")),
      connections_refused_(build.counter("http_connections_refused_total",
                                         "Connections beyond server.max_connections.")),
      accept_errors_(build.counter("http_accept_errors_total",
                                   "Times the system gave no connection for want of files.")),
      http_requests_(build.counter("http_requests_total", "HTTP requests of any path.")),
      http_requests_refused_(
          build.counter("http_requests_refused_total",
                        "HTTP requests malformed, too large, too slow or too many.")),
      clients_gone_(build.counter("http_clients_gone_total",
                                  "Clients that left before their answer was complete.")) {
  for (const int32_t status : {400, 401, 404, 413, 429, 500, 503}) {
    const auto index = static_cast<size_t>(status - kFirstStatus);
    refused_by_status_[index] = &refused_.Add({{"status", std::to_string(status)}});
  }
  GaugeFamily& build_info = build.gauges("build_info", "1; the label says what is running.");
  build_info.Add({{"version", ENCORE_VERSION}}).Set(1.0);
}

void FrontMetrics::refused(int32_t http_status) {
  const int32_t status = std::clamp(http_status, kFirstStatus, kFirstStatus + kNumStatuses - 1);
  prometheus::Counter*& counter = refused_by_status_[static_cast<size_t>(status - kFirstStatus)];
  if (counter == nullptr) counter = &refused_.Add({{"status", std::to_string(status)}});
  counter->Increment();
}

void FrontMetrics::set(const MetricsSnapshot& snapshot) {
  const auto tokenizing = static_cast<double>(snapshot.requests_tokenizing);
  waiting_.Set(snapshot.engine.num_waiting + tokenizing);
  tokenizing_.Set(tokenizing);
  max_running_.Set(snapshot.max_running_requests);
  ready_.Set(snapshot.ready ? 1.0 : 0.0);
  draining_.Set(snapshot.draining ? 1.0 : 0.0);
  const HttpStats& http = snapshot.http;
  connections_open_.Set(static_cast<double>(http.connections_open));
  raise_to(connections_accepted_, static_cast<double>(http.connections_accepted));
  raise_to(connections_refused_, static_cast<double>(http.connections_refused));
  raise_to(accept_errors_, static_cast<double>(http.accept_errors));
  raise_to(http_requests_, static_cast<double>(http.requests));
  raise_to(http_requests_refused_, static_cast<double>(http.requests_refused));
  raise_to(clients_gone_, static_cast<double>(http.clients_gone));
}

}  // namespace encore
