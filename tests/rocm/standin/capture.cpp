#include "capture.h"

#include <algorithm>
#include <utility>

namespace encore::standin {
namespace {

thread_local hipStreamCaptureMode thread_mode = hipStreamCaptureModeGlobal;

std::vector<std::shared_ptr<Capture>> active_captures() {
  std::vector<std::shared_ptr<Capture>> captures;
  streams().each([&](Stream& stream) {
    if (stream.capture != nullptr && stream.capture->origin == &stream) {
      captures.push_back(stream.capture);
    }
  });
  return captures;
}

hipError_t invalidate(Capture& capture, hipError_t error) {
  capture.invalid = true;
  return error;
}

void join(Stream& stream, std::shared_ptr<Capture> capture) {
  capture->streams.push_back(&stream);
  stream.capture = std::move(capture);
}

void add_to_tail(Stream& stream, const std::vector<Node*>& nodes) {
  for (Node* node : nodes) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) {
      stream.tail.push_back(node);
    }
  }
}

void add_node(Stream& stream, std::shared_ptr<Operation> operation) {
  auto node = std::make_unique<Node>();
  node->operation = std::move(operation);
  node->after = std::exchange(stream.tail, {});
  stream.tail = {node.get()};
  stream.capture->graph->nodes.push_back(std::move(node));
}

void release_streams(Capture& capture) {
  for (Stream* stream : std::exchange(capture.streams, {})) {
    stream->tail.clear();
    stream->capture = nullptr;
  }
}

bool all_joined(const Capture& capture) {
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const Stream* stream) {
    return std::all_of(stream->tail.begin(), stream->tail.end(),
                       [&](const Node* node) { return comes_before(node, capture.origin->tail); });
  });
}

bool forbids_unsafe_calls(const Capture& capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  switch (thread_mode) {
    case hipStreamCaptureModeGlobal:
      return own ? capture.mode != hipStreamCaptureModeRelaxed
                 : capture.mode == hipStreamCaptureModeGlobal;
    case hipStreamCaptureModeThreadLocal:
      return own && capture.mode != hipStreamCaptureModeRelaxed;
    default:
      return false;
  }
}

// The null stream would wait for streams that are in a capture.
hipError_t forbid_implicit_wait(const Stream& stream) {
  if (streams().has(&stream)) return hipSuccess;
  hipError_t error = hipSuccess;
  streams().each([&](Stream& other) {
    if (other.capture == nullptr || !other.blocking || other.device != stream.device) return;
    error = invalidate(*other.capture, hipErrorStreamCaptureImplicit);
  });
  return error;
}

}  // namespace

Handles<Event>& events() {
  static auto& events = *new Handles<Event>;
  return events;
}

hipError_t enqueue(Stream& stream, std::shared_ptr<Operation> operation) {
  if (const hipError_t error = forbid_implicit_wait(stream); error != hipSuccess) return error;
  if (stream.capture == nullptr) {
    push(stream, std::move(operation));
    return hipSuccess;
  }
  if (stream.capture->invalid) return hipErrorStreamCaptureInvalidated;
  add_node(stream, std::move(operation));
  return hipSuccess;
}

hipError_t record(Event& event, Stream& stream) {
  if (event.device != stream.device) return hipErrorInvalidHandle;
  if (const hipError_t error = forbid_implicit_wait(stream); error != hipSuccess) return error;
  if (stream.capture != nullptr && stream.capture->invalid) {
    return hipErrorStreamCaptureInvalidated;
  }
  event.captured = stream.capture != nullptr;
  event.capture = stream.capture;
  event.nodes = stream.tail;
  event.record = event.captured ? nullptr : push(stream, std::make_shared<MarkOperation>());
  return hipSuccess;
}

hipError_t wait(Stream& stream, const Event& event) {
  const std::shared_ptr<Capture> other = event.capture.lock();
  if (event.captured && (other == nullptr || other->streams.empty())) return hipErrorCapturedEvent;
  if (stream.capture != nullptr && stream.capture->invalid) {
    return hipErrorStreamCaptureInvalidated;
  }
  if (event.captured) {
    if (other->invalid) return hipErrorStreamCaptureInvalidated;
    if (!streams().has(&stream)) return invalidate(*other, hipErrorStreamCaptureImplicit);
    if (stream.capture == nullptr) join(stream, other);
    if (stream.capture != other) {
      other->invalid = true;
      return invalidate(*stream.capture, hipErrorStreamCaptureMerge);
    }
    add_to_tail(stream, event.nodes);
    return hipSuccess;
  }
  if (event.record == nullptr) return hipSuccess;  // never recorded
  if (stream.capture != nullptr) {
    return invalidate(*stream.capture, hipErrorStreamCaptureIsolation);
  }
  if (!event.record->done) push(stream, std::make_shared<WaitOperation>(event.record));
  return hipSuccess;
}

hipError_t begin_capture(Stream& stream, hipStreamCaptureMode mode) {
  static unsigned long long captures = 0;
  if (!streams().has(&stream)) return hipErrorStreamCaptureUnsupported;  // the null stream
  if (stream.capture != nullptr) return hipErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->graph = std::make_unique<Graph>();
  capture->graph->device = stream.device;
  join(stream, std::move(capture));
  return hipSuccess;
}

hipError_t end_capture(Stream& stream, hipGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return hipErrorIllegalState;
  if (capture->mode != hipStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return hipErrorStreamCaptureWrongThread;
  }
  if (capture->origin != &stream) return invalidate(*capture, hipErrorStreamCaptureUnmatched);
  const bool joined = all_joined(*capture);
  release_streams(*capture);
  if (capture->invalid) return hipErrorStreamCaptureInvalidated;
  if (!joined) return hipErrorStreamCaptureUnjoined;
  *graph = graphs().add(std::move(capture->graph));
  return hipSuccess;
}

void leave_capture(Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == &stream) return release_streams(*capture);
  capture->invalid = true;
  std::erase(capture->streams, &stream);
  stream.capture = nullptr;
}

hipError_t forbid_unsafe_call() {
  hipError_t error = hipSuccess;
  for (const std::shared_ptr<Capture>& capture : active_captures()) {
    if (!forbids_unsafe_calls(*capture)) continue;
    error = invalidate(*capture, hipErrorStreamCaptureUnsupported);
  }
  return error;
}

hipError_t forbid_waiting(Stream& stream) {
  if (stream.capture != nullptr) {
    return invalidate(*stream.capture, hipErrorStreamCaptureUnsupported);
  }
  return forbid_implicit_wait(stream);
}

hipError_t forbid_waiting(const Event& event) {
  if (!event.captured) return hipSuccess;
  if (const std::shared_ptr<Capture> capture = event.capture.lock()) capture->invalid = true;
  return hipErrorCapturedEvent;
}

hipError_t forbid_waiting_for_device(int device) {
  hipError_t error = hipSuccess;
  for (Stream* stream : streams_of(device)) {
    if (stream->capture == nullptr) continue;
    error = invalidate(*stream->capture, hipErrorStreamCaptureUnsupported);
  }
  return error;
}

hipStreamCaptureMode exchange_mode(hipStreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

}  // namespace encore::standin
