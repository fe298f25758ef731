// What `encore graphs` shows: buckets, memory, replays, and one step as the device spent it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/runner.h"
#include "engine/dispatch.h"
#include "memory_ledger.h"
#include "session_summary.h"

namespace encore {

// One step, looked at.
struct TracedStep {
  std::string what;                // "decode graph, bucket 4"
  std::vector<TraceEvent> events;  // by start; empty: see `missing`
  std::string missing;             // why there is nothing to see
};

struct GraphsReport {
  std::string model;
  std::string backend;
  std::string device;
  CaptureSummary capture;
  MemoryLedger ledger;
  DispatchStats dispatch;  // of the scripted run
  std::vector<TracedStep> steps;
};

std::string graphs_text(const GraphsReport& report);
std::string graphs_json(const GraphsReport& report);
// One page that needs nothing else: bars for the buckets, and a timeline for each traced step.
std::string graphs_html(const GraphsReport& report);

}  // namespace encore
