// Stream capture, by the rules of HIP's and CUDA's documentation.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "graph.h"
#include "handles.h"
#include "stream.h"

namespace encore::standin {

struct Capture {
  unsigned long long id = 0;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::unique_ptr<Graph> graph;
  bool invalid = false;
  std::vector<Stream*> streams;  // that take part
};

}  // namespace encore::standin

struct ihipEvent_t {
  unsigned flags = 0;
  int device = 0;
  std::shared_ptr<encore::standin::Completion> record;  // null: never, or in a capture
  bool captured = false;                                // last recorded in a capture:
  std::weak_ptr<encore::standin::Capture> capture;      // in this one,
  std::vector<hipGraphNode_t> nodes;                    // behind these
};

namespace encore::standin {

using Event = ihipEvent_t;
Handles<Event>& events();

// Puts the operation into the stream, or into its capture.
// Errors: hipErrorStreamCaptureInvalidated; hipErrorStreamCaptureImplicit for the null stream while
// a blocking stream of its device is in a capture, which that invalidates.
hipError_t enqueue(Stream& stream, std::shared_ptr<Operation> operation);

hipError_t record(Event& event, Stream& stream);
hipError_t wait(Stream& stream, const Event& event);

hipError_t begin_capture(Stream& stream, hipStreamCaptureMode mode);
// Gives null with every error but those of a call that has nothing to do with a capture.
hipError_t end_capture(Stream& stream, hipGraph_t* graph);
// A stream that goes away takes its capture with it.
void leave_capture(Stream& stream);

// For calls that capture rules call unsafe, as allocations are: hipErrorStreamCaptureUnsupported,
// with the captures in question invalid, if a capture of this thread, or another's of global mode,
// forbids them.
hipError_t forbid_unsafe_call();
// The same for waiting for, or asking about, a stream, an event or a whole device.
hipError_t forbid_waiting(Stream& stream);
hipError_t forbid_waiting(const Event& event);
hipError_t forbid_waiting_for_device(int device);

// What this thread's unsafe calls are judged by.
hipStreamCaptureMode exchange_mode(hipStreamCaptureMode mode);

}  // namespace encore::standin
