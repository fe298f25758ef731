// A traced step on one stream: kernel by kernel where the vendor's library tells, its whole time
// where not.
#pragma once

#include <memory>
#include <vector>

#include "encore/lowering/ops.h"
#include "encore/runner.h"
#include "encore/status.h"
#include "node_labels.h"
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
  // A graph is being launched on the stream. Does nothing outside a trace.
  void launched(const NodeLabels& labels, int32_t num_nodes);
  // Waits for the stream. Nodes of graphs are named after op and kernel, "layer 3 qkv: cublas
  // 64x8", what runs eagerly after the kernel. Where kernels are not told, gives one event named
  // "step" and logs why.
  Result<std::vector<TraceEvent>> end(gpuStream_t stream);

 private:
  Tracer* tracer_;
  Status tracing_;                      // of kernels; why not, if not
  std::unique_ptr<StreamTimer> timer_;  // null: no step is being traced
  // Of each node launched so far; null where unknown. Borrowed from the graphs.
  std::vector<const lowering::OpLabel*> node_labels_;
};

}  // namespace encore::gpu
