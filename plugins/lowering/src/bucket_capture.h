// What capturing the buckets of a graph runner has in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
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

// Index of the bucket that serves `size`, or that it waits for: the smallest that holds it, but,
// with padding, of those of which `is_skipped(index)` is false if there is one. -1: none holds it.
template <typename IsSkipped>
int32_t serving_bucket(const Buckets& buckets, int32_t size, bool padding,
                       const IsSkipped& is_skipped) {
  const int32_t smallest = buckets.find(size, padding);
  if (smallest < 0 || !padding) return smallest;
  for (auto index = static_cast<size_t>(smallest); index < buckets.sizes().size(); ++index) {
    if (!is_skipped(index)) return static_cast<int32_t>(index);
  }
  return smallest;
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

// Calls `capture(index, size, report)` for one bucket. A failure is in the report. Errors: one that
// costs the device.
template <typename Capture>
Result<BucketReport> capture_one(const StepContext& context, size_t index, int32_t size,
                                 const Capture& capture) {
  const auto start = std::chrono::steady_clock::now();
  BucketReport report;
  report.bucket = size;
  report.workspace_bytes = context.workspace_bytes();
  const CaptureFaults* faults = context.options().faults.get();
  Status status = faults == nullptr ? Status() : faults->strike(size);
  if (status.ok()) status = capture(index, size, report);
  if (status.scope() >= Scope::kDevice) {
    return status.retold("bucket " + std::to_string(size) + ": " + status.message());
  }
  if (!status.ok()) {
    report.reason =
        status.code() == StatusCode::kOutOfMemory ? Reason::kOutOfMemory : Reason::kCaptureFailed;
    report.message = status.to_string();
  }
  report.capture_us = microseconds_since(start);
  return report;
}

// Captures each bucket, largest first; with options.lazy only lists them. A bucket that fails costs
// that bucket only. Errors: one that costs the device.
template <typename Capture>
Status capture_largest_first(const Buckets& buckets, const CaptureOptions& options,
                             const StepContext& context, CaptureReport& report,
                             const Capture& capture) {
  const std::span<const int32_t> sizes = buckets.sizes();
  const auto total = static_cast<int32_t>(sizes.size());
  const auto start = std::chrono::steady_clock::now();
  for (int32_t done = 0; done < total; ++done) {
    const auto index = static_cast<size_t>(total - 1 - done);
    if (options.lazy) {
      report.buckets.push_back({sizes[index], Reason::kNotCaptured, "captured later"});
      continue;
    }
    ENCORE_ASSIGN_OR_RETURN(BucketReport bucket,
                            capture_one(context, index, sizes[index], capture));
    report.buckets.push_back(std::move(bucket));
    report.executable_bytes += report.buckets.back().executable_bytes;
    if (options.progress) options.progress(done + 1, total);
  }
  report.total_us += microseconds_since(start);
  return {};
}

// Runner::capture_bucket: `is_captured(index)` tells whether there is nothing left to do.
template <typename IsCaptured, typename Capture>
Result<CaptureReport> capture_later(const Buckets& buckets, int32_t size, StepContext& context,
                                    const IsCaptured& is_captured, const Capture& capture) {
  const int32_t found = buckets.find(size, false);
  if (found < 0) return not_found("there is no bucket of " + std::to_string(size));
  const auto index = static_cast<size_t>(found);
  if (is_captured(index)) {
    return failed_precondition("bucket " + std::to_string(size) + " has been captured already");
  }
  const std::lock_guard lock(context.device().turn());
  CaptureReport report;
  ENCORE_ASSIGN_OR_RETURN(BucketReport bucket, capture_one(context, index, size, capture));
  report.buckets.push_back(std::move(bucket));
  report.executable_bytes = report.buckets.back().executable_bytes;
  report.total_us = report.buckets.back().capture_us;
  return report;
}

}  // namespace encore::lowering
