// The three runners: eager, prefill graph, decode graph.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "encore/backend.h"
#include "encore/buckets.h"
#include "encore/lowering/layer_stack.h"
#include "encore/lowering/step_context.h"
#include "encore/lowering/step_runner.h"

namespace encore::lowering {

// Issues every op of every step. Runs any batch that the static buffers hold.
class EagerRunner final : public StepRunner {
 public:
  EagerRunner(std::shared_ptr<StepContext> context, const LayerStack& stack,
              std::shared_ptr<const LayerObserver> observer);
  RunnerKind kind() const override { return RunnerKind::kEager; }

 protected:
  RunnerCheck check_bucket(const ForwardBatch& batch) const override;
  PaddedSize padded_size(const ForwardBatch& batch, int32_t bucket) const override;
  Result<Matrix> execute(const ForwardBatch& batch, int32_t bucket) override;

 private:
  Step step_;  // at the limits' sizes
  std::shared_ptr<const LayerObserver> observer_;
  std::vector<float> observed_;  // host copy of a layer's output
};

// Replays a graph keyed by the padded number of requests, each bringing one token.
class DecodeGraphRunner final : public StepRunner {
 public:
  static Result<RunnerCapture> capture(std::shared_ptr<StepContext> context,
                                       const LayerStack& stack, const CaptureOptions& options,
                                       std::shared_ptr<const LayerObserver> observer,
                                       CaptureReport report);
  RunnerKind kind() const override { return RunnerKind::kDecodeGraph; }
  void drop_bucket(int32_t size) override;
  Result<CaptureReport> capture_bucket(int32_t size) override;

 protected:
  RunnerCheck check_bucket(const ForwardBatch& batch) const override;
  PaddedSize padded_size(const ForwardBatch& batch, int32_t bucket) const override;
  Result<Matrix> execute(const ForwardBatch& batch, int32_t bucket) override;

 private:
  struct Bucket {
    Step step;
    std::unique_ptr<DeviceGraph> graph;  // null: not captured
    bool for_later = false;              // else null is for good, and larger buckets serve
  };
  DecodeGraphRunner(std::shared_ptr<StepContext> context, const LayerStack& stack, Buckets buckets,
                    bool padding, std::shared_ptr<const LayerObserver> observer);
  Status record_bucket(int32_t size, Bucket& bucket, BucketReport& report);

  Buckets buckets_;
  std::vector<Bucket> captured_;  // parallel to buckets_.sizes()
  bool padding_;
  std::shared_ptr<const LayerObserver> observer_;
};

// Replays a graph keyed by the padded number of tokens alone: how many requests share the step, how
// long they are and how much of each is cached is read on the device.
//   full:      one graph from embed to sampled tokens.
//   breakable: the layer stack in graph segments; attention, observers, embed and head eager.
class PrefillGraphRunner final : public StepRunner {
 public:
  static Result<RunnerCapture> capture(std::shared_ptr<StepContext> context,
                                       const LayerStack& stack, const CaptureOptions& options,
                                       std::shared_ptr<const LayerObserver> observer,
                                       CaptureReport report);
  RunnerKind kind() const override { return RunnerKind::kPrefillGraph; }
  void drop_bucket(int32_t size) override;
  Result<CaptureReport> capture_bucket(int32_t size) override;

 protected:
  RunnerCheck check_bucket(const ForwardBatch& batch) const override;
  PaddedSize padded_size(const ForwardBatch& batch, int32_t bucket) const override;
  Result<Matrix> execute(const ForwardBatch& batch, int32_t bucket) override;

 private:
  // One launch, or one thing done eagerly between two launches.
  using Segment = std::variant<std::unique_ptr<DeviceGraph>, std::function<Status()>>;
  struct Bucket {
    Step step;
    std::vector<Segment> segments;  // empty: not captured
    bool for_later = false;         // else empty is for good, and larger buckets serve
  };
  class BreakingOps;

  PrefillGraphRunner(std::shared_ptr<StepContext> context, const LayerStack& stack, Buckets buckets,
                     const CaptureOptions& options, std::shared_ptr<const LayerObserver> observer);
  // Requests that a bucket has room for: each brings a token, or it would not be in the step.
  int32_t requests_of(int32_t bucket) const;
  Status record_bucket(int32_t size, Bucket& bucket, BucketReport& report);
  Status capture_full(Bucket& bucket);
  Status capture_breakable(Bucket& bucket);
  Status observe(const Step& step, int32_t layer);

  Buckets buckets_;
  std::vector<Bucket> captured_;  // parallel to buckets_.sizes()
  bool padding_;
  PrefillMode mode_;
  int32_t max_requests_;
  int32_t live_tokens_ = 0;  // of the step being executed, for observers
  std::shared_ptr<const LayerObserver> observer_;
  bool breaks_for_observer_;
  std::vector<float> observed_;
};

// Copies a layer's output to `host`, waits, and calls `observer`. Host and device meet here.
Status call_observer(Device& device, const LayerObserver& observer, const Matrix& hidden,
                     int32_t layer, int32_t live_tokens, std::vector<float>& host);

}  // namespace encore::lowering
