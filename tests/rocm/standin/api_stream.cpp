// Streams and events.
#include <memory>
#include <string>

#include "call.h"
#include "capture.h"
#include "device.h"
#include "misuse.h"

using encore::standin::call;
using encore::standin::CallKind;
using encore::standin::Event;
using encore::standin::Lock;
using encore::standin::Stream;

namespace standin = encore::standin;

hipError_t hipStreamCreateWithFlags(hipStream_t* handle, unsigned flags) {
  return call("hipStreamCreateWithFlags", CallKind::kWork, [&](Lock&) {
    auto stream = std::make_unique<Stream>();
    stream->device = standin::current_device();
    stream->blocking = (flags & hipStreamNonBlocking) == 0;
    *handle = standin::streams().add(std::move(stream));
    return hipSuccess;
  });
}

hipError_t hipStreamCreate(hipStream_t* handle) { return hipStreamCreateWithFlags(handle, 0); }

hipError_t hipStreamDestroy(hipStream_t handle) {
  return call("hipStreamDestroy", CallKind::kRelease, [&](Lock&) {
    if (handle == nullptr || !standin::streams().has(handle)) return hipErrorInvalidHandle;
    standin::leave_capture(*handle);
    const Stream stream = standin::streams().remove(handle);
    if (!stream.queue.empty()) {
      standin::note_misuse("a stream is destroyed with " + std::to_string(stream.queue.size()) +
                           " operations that have not run; the first is " +
                           stream.queue.front().operation->what());
    }
    for (const Stream::Entry& entry : stream.queue) entry.completion->done = true;
    standin::notify();
    return hipSuccess;
  });
}

hipError_t hipStreamSynchronize(hipStream_t handle) {
  return call("hipStreamSynchronize", CallKind::kWork, [&](Lock& lock) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    const hipError_t error = standin::forbid_waiting(*stream);
    if (error != hipSuccess) return error;
    const int device = stream->device;
    standin::drain(lock, *stream);
    return standin::loss_of(device);
  });
}

hipError_t hipStreamQuery(hipStream_t handle) {
  return call("hipStreamQuery", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr) return hipErrorInvalidHandle;
    const hipError_t error = standin::forbid_waiting(*stream);
    if (error != hipSuccess) return error;
    if (stream->queue.empty()) return hipSuccess;
    const auto last = stream->queue.back().completion;
    const bool done = standin::poll(*last);
    const hipError_t loss = standin::loss_of(stream->device);
    if (loss != hipSuccess) return loss;
    return done ? hipSuccess : hipErrorNotReady;
  });
}

hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event, unsigned flags) {
  return call("hipStreamWaitEvent", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr || !standin::events().has(event)) return hipErrorInvalidHandle;
    return flags != 0 ? hipErrorInvalidValue : standin::wait(*stream, *event);
  });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* handle, unsigned flags) {
  return call("hipEventCreateWithFlags", CallKind::kWork, [&](Lock&) {
    auto event = std::make_unique<Event>();
    event->flags = flags;
    event->device = standin::current_device();
    *handle = standin::events().add(std::move(event));
    return hipSuccess;
  });
}

hipError_t hipEventCreate(hipEvent_t* handle) { return hipEventCreateWithFlags(handle, 0); }

hipError_t hipEventDestroy(hipEvent_t event) {
  return call("hipEventDestroy", CallKind::kRelease, [&](Lock&) {
    if (!standin::events().has(event)) return hipErrorInvalidHandle;
    standin::events().remove(event);
    return hipSuccess;
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t handle) {
  return call("hipEventRecord", CallKind::kWork, [&](Lock&) {
    Stream* stream = standin::find_stream(handle);
    if (stream == nullptr || !standin::events().has(event)) return hipErrorInvalidHandle;
    return standin::record(*event, *stream);
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return call("hipEventSynchronize", CallKind::kWork, [&](Lock& lock) {
    if (!standin::events().has(event)) return hipErrorInvalidHandle;
    const hipError_t error = standin::forbid_waiting(*event);
    if (error != hipSuccess) return error;
    const auto awaited = event->record;
    if (awaited == nullptr) return hipSuccess;
    standin::run_until(lock, *awaited->stream, [&] { return awaited->done; });
    return standin::loss_of(event->device);
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return call("hipEventQuery", CallKind::kWork, [&](Lock&) {
    if (!standin::events().has(event)) return hipErrorInvalidHandle;
    const hipError_t error = standin::forbid_waiting(*event);
    if (error != hipSuccess) return error;
    const auto awaited = event->record;
    if (awaited == nullptr || awaited->done) return hipSuccess;
    const bool done = standin::poll(*awaited);
    const hipError_t loss = standin::loss_of(event->device);
    if (loss != hipSuccess) return loss;
    return done ? hipSuccess : hipErrorNotReady;
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return call("hipEventElapsedTime", CallKind::kWork, [&](Lock&) {
    for (const Event* event : {start, stop}) {
      if (!standin::events().has(event)) return hipErrorInvalidHandle;
      if ((event->flags & hipEventDisableTiming) != 0) return hipErrorInvalidHandle;
      if (event->record == nullptr) return hipErrorInvalidHandle;
      if (!event->record->done) return hipErrorNotReady;
    }
    *milliseconds = static_cast<float>(stop->record->milliseconds - start->record->milliseconds);
    return hipSuccess;
  });
}
