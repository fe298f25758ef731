// What capturing the buckets of a graph runner has in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>

#include "encore/backend.h"
#include "encore/buckets.h"
#include "encore/lowering/step_context.h"

namespace encore::lowering {

inline int64_t microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

// Records `build` on the device. A failure inside leaves no capture open.
template <typename Build>
Result<std::unique_ptr<DeviceGraph>> record(Device& device, const Build& build) {
  ENCORE_RETURN_IF_ERROR(device.begin_capture());
  const Status built = build();
  auto graph = device.end_capture();
  if (!built.ok()) return built;
  return graph;
}

// Calls `capture(index, size, report)` for each bucket, largest first. A bucket that fails costs
// that bucket only: its report says why.
template <typename Capture>
void capture_largest_first(const Buckets& buckets, const CaptureOptions& options,
                           const StepContext& context, CaptureReport& report,
                           const Capture& capture) {
  const std::span<const int32_t> sizes = buckets.sizes();
  const auto total = static_cast<int32_t>(sizes.size());
  const auto start = std::chrono::steady_clock::now();
  for (int32_t done = 0; done < total; ++done) {
    const auto index = static_cast<size_t>(total - 1 - done);
    const auto bucket_start = std::chrono::steady_clock::now();
    BucketReport bucket;
    bucket.bucket = sizes[index];
    bucket.workspace_bytes = context.workspace_bytes();
    const Status status = capture(index, sizes[index], bucket);
    if (!status.ok()) {
      bucket.reason =
          status.code() == StatusCode::kOutOfMemory ? Reason::kOutOfMemory : Reason::kCaptureFailed;
      bucket.message = status.to_string();
    }
    bucket.capture_us = microseconds_since(bucket_start);
    report.executable_bytes += bucket.executable_bytes;
    report.buckets.push_back(std::move(bucket));
    if (options.progress) options.progress(done + 1, total);
  }
  report.total_us += microseconds_since(start);
}

}  // namespace encore::lowering
