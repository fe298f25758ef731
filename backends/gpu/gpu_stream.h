// A stream that ends with its owner.
#pragma once

#include <memory>

#include "encore/status.h"
#include "gpu_status.h"
#include "vendor.h"

namespace encore::gpu {

// Of the device that was current when it was made. Destruction waits for its work.
class GpuStream {
 public:
  static Result<std::unique_ptr<GpuStream>> create() {
    std::unique_ptr<GpuStream> made(new GpuStream);
    ENCORE_RETURN_IF_ERROR(gpu_status(
        gpuStreamCreateWithFlags(&made->stream_, gpuStreamNonBlocking), "creating a stream"));
    return made;
  }
  ~GpuStream() {
    if (stream_ == nullptr) return;
    static_cast<void>(gpuStreamSynchronize(stream_));
    static_cast<void>(gpuStreamDestroy(stream_));
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;

  gpuStream_t get() const { return stream_; }

 private:
  GpuStream() = default;
  gpuStream_t stream_ = nullptr;
};

}  // namespace encore::gpu
