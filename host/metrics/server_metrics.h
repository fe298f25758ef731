// The server's Prometheus metrics: names, buckets and help in one place.
//
// Names are vLLM's under "encore:", so that dashboards and gateways find them
// (docs/metrics.md maps them to the Gateway API inference extension).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "engine/request.h"
#include "http/http_server.h"

namespace encore {

// What is read when somebody asks for the metrics.
struct MetricsSnapshot {
  EngineStats engine;
  HttpStats http;
  int32_t max_running_requests = 0;
  int32_t page_size = 0;            // tokens; 0: not known yet
  int64_t requests_tokenizing = 0;  // arrived, not yet in the engine
  bool ready = false;
  bool draining = false;
};

// Observations are cheap (no allocation) and come from one thread; render() may run on another.
class ServerMetrics {
 public:
  explicit ServerMetrics(std::string model_name);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // Every event of a request, in order; the times are the engine's own.
  void observe(const RequestEvent& event);
  // A request that got no further than the door, by HTTP status.
  void refused(int32_t http_status);

  // Requests that have had a token and no end yet. The observing thread.
  int64_t num_live_requests() const;

  // The text exposition format, version 0.0.4. Counters are taken from `snapshot`, histograms from
  // what was observed.
  std::string render(const MetricsSnapshot& snapshot);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace encore
