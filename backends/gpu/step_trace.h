// A traced step on one stream: kernel by kernel where the vendor's library tells, its whole time
// where not.
#pragma once

#include <memory>
#include <vector>

#include "encore/runner.h"
#include "encore/status.h"
#include "stream_timer.h"
#include "tracer.h"
#include "vendor.h"

namespace encore::gpu {

// Used by one thread at a time, while the device is current.
class StepTrace {
 public:
  // Borrows `tracer`, which may be null: then only whole steps are timed.
  explicit StepTrace(Tracer* tracer) : tracer_(tracer) {}

  // Errors: kFailedPrecondition if a trace is under way in this process.
  Status begin(gpuStream_t stream);
  // Waits for the stream. Where kernels are not told, gives one event named "step" and logs why.
  Result<std::vector<TraceEvent>> end(gpuStream_t stream);

 private:
  Tracer* tracer_;
  Status tracing_;                      // of kernels; why not, if not
  std::unique_ptr<StreamTimer> timer_;  // null: no step is being traced
};

}  // namespace encore::gpu
