// Sends a load and watches what comes back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_serve_client.h"
#include "bench_serve_reply.h"

namespace encore {

struct LoadPlan {
  std::string path;                 // "/v1/completions"
  std::vector<std::string> bodies;  // one a request
  std::vector<double> arrivals_s;   // one a request, ascending, from the start
  int32_t concurrency = 0;          // requests under way at most; 0: any number
};

struct LoadOutcome {
  std::vector<LoadRecord> records;  // of requests that ended, in order of their ends
  double duration_s = 0.0;          // first sent to last ended
};

// A request that arrives while `concurrency` are under way waits here, and its times begin when it
// is sent. Ctrl-C ends it early with what has come so far. Shows progress as `label`.
// REQUIRES: as many arrivals as bodies.
LoadOutcome run_load(LoadClient& client, const LoadPlan& plan, const std::string& label);

}  // namespace encore
