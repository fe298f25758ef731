#include "engine/lazy_capture.h"

#include <algorithm>
#include <utility>

namespace encore {
namespace {

std::string name_of(RunnerKind kind, int32_t bucket) {
  return std::string(runner_kind_name(kind)) + " bucket " + std::to_string(bucket);
}

}  // namespace

LazyCapture::LazyCapture(const GraphsCapture& graphs, LogSink log) : log_(std::move(log)) {
  if (graphs.prefill.runner != graphs.eager.runner) {
    add(graphs.prefill.runner.get(), graphs.prefill.report);
  }
  add(graphs.decode.runner.get(), graphs.decode.report);
}

void LazyCapture::add(Runner* runner, const CaptureReport& report) {
  if (runner == nullptr) return;
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason == Reason::kNotCaptured) missing_.push_back({runner, bucket.bucket, 0});
  }
}

void LazyCapture::asked(RunnerKind kind, int32_t bucket) {
  for (Missing& missing : missing_) {
    if (missing.bucket == bucket && missing.runner->kind() == kind) ++missing.asked;
  }
}

LazyCapture::Captured LazyCapture::capture_next() {
  const auto next =
      std::max_element(missing_.begin(), missing_.end(), [](const Missing& a, const Missing& b) {
        return std::pair(a.asked, a.bucket) < std::pair(b.asked, b.bucket);
      });
  const Missing taken = *next;
  missing_.erase(next);
  Captured captured;
  captured.kind = taken.runner->kind();
  Result<CaptureReport> report = taken.runner->capture_bucket(taken.bucket);
  if (report.ok()) {
    captured.report = *std::move(report);
  } else {
    BucketReport failed;
    failed.bucket = taken.bucket;
    failed.reason = Reason::kCaptureFailed;
    failed.message = report.status().to_string();
    captured.report.buckets.push_back(std::move(failed));
  }
  if (!log_) return captured;
  const std::string name = name_of(captured.kind, taken.bucket);
  for (const BucketReport& bucket : captured.report.buckets) {
    if (bucket.reason == Reason::kNone) {
      log_(LogLevel::kInfo, name + " captured between steps in " +
                                std::to_string(bucket.capture_us) + " us, asked for " +
                                std::to_string(taken.asked) + " times; " +
                                std::to_string(missing_.size()) + " to go");
    } else {
      log_(LogLevel::kWarn, name + " was not captured (" + std::string(reason_name(bucket.reason)) +
                                "): " + bucket.message);
    }
  }
  return captured;
}

}  // namespace encore
