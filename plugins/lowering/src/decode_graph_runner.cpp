#include <algorithm>
#include <utility>

#include "bucket_capture.h"
#include "encore/lowering/runners.h"
#include "named_range.h"

namespace encore::lowering {

DecodeGraphRunner::DecodeGraphRunner(std::shared_ptr<StepContext> step_context,
                                     const LayerStack& layer_stack, Buckets buckets, bool padding,
                                     std::shared_ptr<const LayerObserver> observer)
    : StepRunner(std::move(step_context), layer_stack),
      buckets_(std::move(buckets)),
      captured_(buckets_.sizes().size()),
      padding_(padding),
      observer_(std::move(observer)) {}

Result<RunnerCapture> DecodeGraphRunner::capture(std::shared_ptr<StepContext> step_context,
                                                 const LayerStack& layer_stack,
                                                 const CaptureOptions& options,
                                                 std::shared_ptr<const LayerObserver> observer,
                                                 CaptureReport report) {
  // A decode step brings one token a request, so both limits bound it.
  const int32_t maximum = std::min(options.limits.max_requests, options.limits.max_tokens);
  const std::vector<int32_t> sizes =
      options.decode_buckets.empty() ? default_decode_buckets(maximum) : options.decode_buckets;
  ENCORE_ASSIGN_OR_RETURN(Buckets buckets, Buckets::create(sizes, maximum));
  std::unique_ptr<DecodeGraphRunner> runner(
      new DecodeGraphRunner(std::move(step_context), layer_stack, std::move(buckets),
                            options.padding, std::move(observer)));
  for (Bucket& bucket : runner->captured_) bucket.for_later = options.lazy;
  const auto record = [&](size_t index, int32_t size, BucketReport& bucket) {
    return runner->record_bucket(size, runner->captured_[index], bucket);
  };
  ENCORE_RETURN_IF_ERROR(
      capture_largest_first(runner->buckets_, options, runner->context(), report, record));
  return RunnerCapture{std::move(runner), std::move(report)};
}

Result<CaptureReport> DecodeGraphRunner::capture_bucket(int32_t size) {
  const int32_t found = buckets_.find(size, false);
  if (found >= 0) captured_[static_cast<size_t>(found)].for_later = false;
  return capture_later(
      buckets_, size, context(), [&](size_t index) { return captured_[index].graph != nullptr; },
      [&](size_t index, int32_t, BucketReport& report) {
        return record_bucket(size, captured_[index], report);
      });
}

Status DecodeGraphRunner::record_bucket(int32_t size, Bucket& bucket, BucketReport& report) {
  Device& device = context().device();
  const NamedRange range(device, "capture decode", size);
  bucket.step = context().step_of(size, size, true, &report.arena_bytes);
  const auto build = [&]() { return stack().forward(device.ops(), bucket.step); };
  ENCORE_ASSIGN_OR_RETURN(bucket.graph, record(device, build));
  report.executable_bytes = bucket.graph->executable_bytes();
  report.num_nodes = bucket.graph->num_nodes();
  report.num_segments = 1;
  return {};
}

void DecodeGraphRunner::drop_bucket(int32_t size) {
  const int32_t index = buckets_.find(size, false);
  if (index >= 0) captured_[static_cast<size_t>(index)].graph.reset();
}

RunnerCheck DecodeGraphRunner::check_bucket(const ForwardBatch& batch) const {
  if (*observer_) return {Reason::kObserved, 0};
  if (!is_decode(batch)) return {Reason::kNotDecode, 0};
  const int32_t index =
      serving_bucket(buckets_, batch.num_requests(), padding_, [this](size_t bucket) {
        return captured_[bucket].graph == nullptr && !captured_[bucket].for_later;
      });
  if (index < 0) {
    return {batch.num_requests() > buckets_.maximum() ? Reason::kTooManyRequests
                                                      : Reason::kNoExactBucket,
            0};
  }
  const bool captured = captured_[static_cast<size_t>(index)].graph != nullptr;
  return {captured ? Reason::kNone : Reason::kNotCaptured,
          buckets_.sizes()[static_cast<size_t>(index)]};
}

StepRunner::PaddedSize DecodeGraphRunner::padded_size(const ForwardBatch&, int32_t bucket) const {
  return {bucket, bucket};
}

Result<Matrix> DecodeGraphRunner::execute(const ForwardBatch&, int32_t bucket) {
  Bucket& captured = captured_[static_cast<size_t>(buckets_.find(bucket, false))];
  ENCORE_RETURN_IF_ERROR(context().device().launch(*captured.graph));
  return captured.step.activations.logits;
}

}  // namespace encore::lowering
