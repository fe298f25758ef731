// One thread's way of bringing weights to the device: a stream, and two host buffers that take
// turns, so that reading a piece from the file overlaps copying the one before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "encore/status.h"
#include "encore/weights.h"
#include "kernels/gpu/dequantize.h"
#include "vendor.h"

namespace encore::gpu {

// A run of whole format groups of one weight.
struct WeightPiece {
  size_t weight = 0;
  int64_t offset = 0;    // bytes into the weight, as in the file
  int64_t bytes = 0;     // as in the file
  int64_t elements = 0;  // what they hold
  WeightFormat format = WeightFormat::kBF16;
  std::byte* destination = nullptr;  // device memory, [elements] bf16
};

// Buffers of a lane, each as long as the longest piece. The owner frees them after the lane.
struct LaneBuffers {
  std::array<std::byte*, 2> host = {};  // page-locked
  std::byte* device = nullptr;          // for pieces that are not bf16; null if there are none
};

// Made and destroyed while its device is current; upload() and drain() by one thread at a time.
// Destruction waits for the copies under way, since they read the buffers.
class UploadLane {
 public:
  static Result<std::unique_ptr<UploadLane>> create(const LaneBuffers& buffers);
  ~UploadLane();
  UploadLane(const UploadLane&) = delete;
  UploadLane& operator=(const UploadLane&) = delete;

  // Reads the piece and enqueues its copy, and its conversion where it is not bf16.
  // Errors: the source's, or the device's.
  Status upload(const WeightSource& source, const WeightPiece& piece);
  // Waits until all that was enqueued is in place.
  Status drain();

 private:
  explicit UploadLane(const LaneBuffers& buffers) : buffers_(buffers) {}

  LaneBuffers buffers_;
  gpuStream_t stream_ = nullptr;
  std::array<gpuEvent_t, 2> free_ = {};  // recorded once a host buffer has been copied from
  size_t turn_ = 0;
};

}  // namespace encore::gpu
