// Captures and graphs.
#include <algorithm>
#include <utility>

#include "call.h"
#include "capture.h"
#include "memory.h"
#include "misuse.h"

using encore::standin::call;
using encore::standin::CallKind;
using encore::standin::Capture;
using encore::standin::Executable;
using encore::standin::Graph;
using encore::standin::Lock;
using encore::standin::Stream;

namespace standin = encore::standin;

hipError_t hipStreamBeginCapture(hipStream_t handle, hipStreamCaptureMode mode) {
  return call("hipStreamBeginCapture", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    return standin::begin_capture(*stream, mode);
  });
}

hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t* graph) {
  *graph = nullptr;
  const hipError_t error = call("hipStreamEndCapture", CallKind::kRelease, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    return standin::end_capture(*stream, graph);
  });
  if (error == hipSuccess || *graph == nullptr) return error;
  const Lock lock(standin::run_time_mutex());  // a failure that was planned: no graph
  standin::graphs().remove(std::exchange(*graph, nullptr));
  return error;
}

hipError_t hipStreamGetCaptureInfo_v2(hipStream_t handle, hipStreamCaptureStatus* status,
                                      unsigned long long* id, hipGraph_t* graph,
                                      const hipGraphNode_t** dependencies,
                                      size_t* num_dependencies) {
  return call("hipStreamGetCaptureInfo_v2", CallKind::kWork, [&](Lock&) {
    const Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    const Capture* capture = stream->capture.get();
    const bool valid = capture != nullptr && !capture->invalid;
    if (capture == nullptr) {
      *status = hipStreamCaptureStatusNone;
    } else {
      *status = valid ? hipStreamCaptureStatusActive : hipStreamCaptureStatusInvalidated;
    }
    if (id != nullptr) *id = capture == nullptr ? 0 : capture->id;
    if (graph != nullptr) *graph = valid ? capture->graph.get() : nullptr;
    if (dependencies != nullptr) *dependencies = valid ? stream->tail.data() : nullptr;
    if (num_dependencies != nullptr) *num_dependencies = valid ? stream->tail.size() : 0;
    return hipSuccess;
  });
}

hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus* status) {
  return hipStreamGetCaptureInfo_v2(handle, status, nullptr, nullptr, nullptr, nullptr);
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return call("hipThreadExchangeStreamCaptureMode", CallKind::kInquiry, [&](Lock&) {
    *mode = standin::exchange_mode(*mode);
    return hipSuccess;
  });
}

// `graph` may be one that a capture still adds to.
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  return call("hipGraphGetNodes", CallKind::kWork, [&](Lock&) {
    if (graph == nullptr || count == nullptr) return hipErrorInvalidValue;
    const size_t all = graph->nodes.size();
    if (nodes == nullptr) {
      *count = all;
      return hipSuccess;
    }
    for (size_t i = 0; i < std::min(all, *count); ++i) nodes[i] = graph->nodes[i].get();
    for (size_t i = all; i < *count; ++i) nodes[i] = nullptr;
    *count = std::min(all, *count);
    return hipSuccess;
  });
}

hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  return call("hipGraphNodeGetType", CallKind::kWork, [&](Lock&) {
    if (node == nullptr || type == nullptr) return hipErrorInvalidValue;
    *type = node->operation->type();
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph, hipGraphNode_t*, char*,
                               size_t) {
  return call("hipGraphInstantiate", CallKind::kWork, [&](Lock&) {
    if (executable == nullptr || !standin::graphs().has(graph)) return hipErrorInvalidValue;
    if (standin::executable_bytes_of(graph->nodes.size()) > standin::free_bytes(graph->device)) {
      return hipErrorOutOfMemory;
    }
    auto made = std::make_unique<Executable>();
    made->device = graph->device;
    for (const auto& node : graph->nodes) made->operations.push_back(node->operation);
    *executable = standin::executables().add(std::move(made));
    return hipSuccess;
  });
}

hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t handle) {
  return call("hipGraphLaunch", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    if (!standin::executables().has(executable)) return hipErrorInvalidValue;
    return standin::launch(*executable, *stream);
  });
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
  return call("hipGraphDestroy", CallKind::kRelease, [&](Lock&) {
    if (!standin::graphs().has(graph)) return hipErrorInvalidValue;
    standin::graphs().remove(graph);
    return hipSuccess;
  });
}

// HIP does not say what becomes of a launch that has not ended.
hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return call("hipGraphExecDestroy", CallKind::kRelease, [&](Lock&) {
    if (!standin::executables().has(executable)) return hipErrorInvalidValue;
    const Executable gone = standin::executables().remove(executable);
    if (gone.launched != nullptr && !gone.launched->done) {
      standin::note_misuse("a graph is destroyed before its last launch has ended");
    }
    return hipSuccess;
  });
}
