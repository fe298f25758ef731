#include "upload_lane.h"

#include "gpu_status.h"

namespace encore::gpu {

Result<std::unique_ptr<UploadLane>> UploadLane::create(const LaneBuffers& buffers) {
  std::unique_ptr<UploadLane> lane(new UploadLane(buffers));
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuStreamCreateWithFlags(&lane->stream_, gpuStreamNonBlocking),
                                    "creating a stream for weights"));
  for (gpuEvent_t& event : lane->free_) {
    ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventCreateWithFlags(&event, gpuEventDisableTiming),
                                      "creating an event for weights"));
  }
  return lane;
}

UploadLane::~UploadLane() {
  if (stream_ == nullptr) return;
  static_cast<void>(gpuStreamSynchronize(stream_));
  for (gpuEvent_t event : free_) {
    if (event != nullptr) static_cast<void>(gpuEventDestroy(event));
  }
  static_cast<void>(gpuStreamDestroy(stream_));
}

Status UploadLane::upload(const WeightSource& source, const WeightPiece& piece) {
  std::byte* const host = buffers_.host[turn_];
  gpuEvent_t const event = free_[turn_];
  turn_ ^= 1;
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventSynchronize(event), "copying weights"));
  ENCORE_RETURN_IF_ERROR(
      source.read(piece.weight, piece.offset, std::span(host, static_cast<size_t>(piece.bytes))));
  // The stream runs in order, so one device buffer serves all pieces.
  const bool convert = piece.format != WeightFormat::kBF16;
  std::byte* const target = convert ? buffers_.device : piece.destination;
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuMemcpyAsync(target, host, static_cast<size_t>(piece.bytes),
                                                   gpuMemcpyHostToDevice, stream_),
                                    "copying weights"));
  ENCORE_RETURN_IF_ERROR(gpu_status(gpuEventRecord(event, stream_), "copying weights"));
  if (!convert) return {};
  Launch launch;
  launch.stream = stream_;
  const LaunchError error =
      dequantize({piece.format, target, piece.elements, piece.destination}, launch);
  return gpu_status(static_cast<gpuError_t>(error), "converting weights to bf16");
}

Status UploadLane::drain() { return gpu_status(gpuStreamSynchronize(stream_), "copying weights"); }

}  // namespace encore::gpu
