// What a GPU did, kernel by kernel, as the vendor's profiling library tells it.
#pragma once

#include <vector>

#include "encore/runner.h"
#include "encore/status.h"

namespace encore::gpu {

// A kernel, copy or fill, by the device's own name.
struct TracedWork {
  TraceEvent event;
  bool in_graph = false;  // a node of a graph that was launched
};

// Sees the whole process and all its devices, so there is one for all models. Any thread.
class Tracer {
 public:
  virtual ~Tracer() = default;

  // Errors: kUnavailable, saying why, if nothing can be told here; kFailedPrecondition if a trace
  // is under way.
  virtual Status begin() = 0;
  // Ends the trace, and gives what ran since begin(), in order of start; each device's streams are
  // lanes of their own. REQUIRES: begin() succeeded, and what it is to tell of has finished.
  virtual Result<std::vector<TracedWork>> end() = 0;
};

}  // namespace encore::gpu
