// How long work on a stream takes, by the device's own clock.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "encore/status.h"
#include "gpu_status.h"
#include "vendor.h"

namespace encore::gpu {

// Used by one thread at a time. Destroyed while the device is current.
class StreamTimer {
 public:
  static Result<std::unique_ptr<StreamTimer>> create() {
    std::unique_ptr<StreamTimer> timer(new StreamTimer);
    for (gpuEvent_t* event : {&timer->begin_, &timer->end_}) {
      ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventCreateWithFlags(event, 0), "creating an event"));
    }
    return timer;
  }
  ~StreamTimer() {
    for (gpuEvent_t event : {begin_, end_}) {
      if (event != nullptr) static_cast<void>(gpuEventDestroy(event));
    }
  }
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  // Microseconds that the stream takes from one call to the other. stop_us() waits for it.
  Status start(gpuStream_t stream) {
    return gpu_status(gpuEventRecord(begin_, stream), "recording an event");
  }
  Result<float> stop_us(gpuStream_t stream) {
    ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventRecord(end_, stream), "recording an event"));
    ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventSynchronize(end_), "waiting for timed work"));
    float milliseconds = 0.0F;
    ENCORE_RETURN_IF_ERROR(
        gpu_status(gpuEventElapsedTime(&milliseconds, begin_, end_), "reading a time"));
    return 1000.0F * milliseconds;
  }

  // Microseconds a call, over `repeats` calls of `enqueue(i)`, a Status. Waits for the stream.
  template <typename Enqueue>
  Result<float> measure_us(gpuStream_t stream, int repeats, const Enqueue& enqueue) {
    ENCORE_RETURN_IF_ERROR(start(stream));
    for (int i = 0; i < repeats; ++i) ENCORE_RETURN_IF_ERROR(enqueue(i));
    ENCORE_ASSIGN_OR_RETURN(const float us, stop_us(stream));
    return us / static_cast<float>(repeats);
  }

 private:
  StreamTimer() = default;

  gpuEvent_t begin_ = nullptr;
  gpuEvent_t end_ = nullptr;
};

}  // namespace encore::gpu
