#include <algorithm>
#include <utility>

#include "bucket_capture.h"
#include "encore/lowering/runners.h"
#include "named_range.h"

namespace encore::lowering {

// Records what the layer stack issues, and breaks the recording where an op must run eagerly.
class PrefillGraphRunner::BreakingOps final : public Ops {
 public:
  BreakingOps(Device& device, std::vector<Segment>& segments)
      : device_(device), inner_(device.ops()), segments_(segments) {}

  Status open() {
    open_ = true;
    return device_.begin_capture();
  }
  // Ends the running segment; one without nodes is dropped.
  Status close() {
    open_ = false;
    ENCORE_ASSIGN_OR_RETURN(auto graph, device_.end_capture());
    if (graph->num_nodes() > 0) segments_.emplace_back(std::move(graph));
    return {};
  }
  bool is_open() const { return open_; }
  Status break_for(std::function<Status()> eager) {
    ENCORE_RETURN_IF_ERROR(close());
    segments_.emplace_back(std::move(eager));
    return open();
  }

  Status attention(Matrix qkv, const AttentionLayer& layer, const StepInputs& step,
                   Matrix y) override {
    return break_for([&ops = inner_, qkv, layer, step, y]() {
      ops.label({"attention", layer.layer});
      return ops.attention(qkv, layer, step, y);
    });
  }

  void label(OpLabel label) override { inner_.label(label); }
  Result<std::unique_ptr<Weight>> load_linear(const WeightSource& source,
                                              std::span<const LinearPart> parts,
                                              Epilogue epilogue) override {
    return inner_.load_linear(source, parts, epilogue);
  }
  Result<std::unique_ptr<Weight>> load_embedding(const WeightSource& source,
                                                 size_t weight) override {
    return inner_.load_embedding(source, weight);
  }
  Result<std::unique_ptr<Weight>> load_norm(const WeightSource& source, size_t weight) override {
    return inner_.load_norm(source, weight);
  }
  Result<std::unique_ptr<Weight>> load_rope(const ModelSpec& spec) override {
    return inner_.load_rope(spec);
  }
  Status embed(const Weight& table, const StepInputs& step, const StepResults& results,
               Matrix y) override {
    return inner_.embed(table, step, results, y);
  }
  Status plan_attention(const AttentionLayer& layer, const StepInputs& step) override {
    return inner_.plan_attention(layer, step);
  }
  Status rms_norm(Matrix x, const Weight& weight, float eps, Rows rows, Matrix y) override {
    return inner_.rms_norm(x, weight, eps, rows, y);
  }
  Status linear(Matrix x, const Weight& weight, Epilogue epilogue, Rows rows, Matrix y) override {
    return inner_.linear(x, weight, epilogue, rows, y);
  }
  Status linear_add_norm(Matrix x, const Weight& weight, Rows rows, Matrix y, const Weight& norm,
                         float eps, Matrix normed) override {
    return inner_.linear_add_norm(x, weight, rows, y, norm, eps, normed);
  }
  Status rope_kv_write(Matrix qkv, const AttentionLayer& layer, const StepInputs& step) override {
    return inner_.rope_kv_write(qkv, layer, step);
  }
  Status gather_logit_rows(Matrix x, const StepInputs& step, Matrix y) override {
    return inner_.gather_logit_rows(x, step, y);
  }
  Status all_reduce(Matrix x, Rows rows) override { return inner_.all_reduce(x, rows); }
  Status all_reduce_norm(Matrix x, Rows rows, const Weight& norm, float eps,
                         Matrix normed) override {
    return inner_.all_reduce_norm(x, rows, norm, eps, normed);
  }
  Status all_gather(Matrix part, Rows rows, Matrix whole) override {
    return inner_.all_gather(part, rows, whole);
  }
  Status sample(Matrix logits, const StepInputs& step, const StepResults& results) override {
    return inner_.sample(logits, step, results);
  }

 private:
  Device& device_;
  Ops& inner_;
  std::vector<Segment>& segments_;
  bool open_ = false;
};

PrefillGraphRunner::PrefillGraphRunner(std::shared_ptr<StepContext> step_context,
                                       const LayerStack& layer_stack, Buckets buckets,
                                       const CaptureOptions& options,
                                       std::shared_ptr<const LayerObserver> observer)
    : StepRunner(std::move(step_context), layer_stack),
      buckets_(std::move(buckets)),
      captured_(buckets_.sizes().size()),
      padding_(options.padding),
      mode_(options.prefill_mode),
      max_requests_(options.limits.max_requests),
      observer_(std::move(observer)),
      breaks_for_observer_(*observer_ != nullptr) {}

Result<RunnerCapture> PrefillGraphRunner::capture(std::shared_ptr<StepContext> step_context,
                                                  const LayerStack& layer_stack,
                                                  const CaptureOptions& options,
                                                  std::shared_ptr<const LayerObserver> observer,
                                                  CaptureReport report) {
  if (options.prefill_mode == PrefillMode::kOff) {
    return invalid_argument("prefill_mode is off: there is nothing to capture");
  }
  const int32_t maximum = options.limits.max_tokens;
  const std::vector<int32_t> sizes =
      options.prefill_buckets.empty() ? default_prefill_buckets(maximum) : options.prefill_buckets;
  ENCORE_ASSIGN_OR_RETURN(Buckets buckets, Buckets::create(sizes, maximum));
  std::unique_ptr<PrefillGraphRunner> runner(new PrefillGraphRunner(
      std::move(step_context), layer_stack, std::move(buckets), options, std::move(observer)));
  const bool forced = runner->breaks_for_observer_ && options.prefill_mode == PrefillMode::kFull;
  if (forced) runner->mode_ = PrefillMode::kBreakable;
  for (Bucket& bucket : runner->captured_) bucket.for_later = options.lazy;
  const auto record = [&](size_t index, int32_t size, BucketReport& bucket) {
    if (forced) bucket.message = "breakable: a layer observer is registered";
    return runner->record_bucket(size, runner->captured_[index], bucket);
  };
  ENCORE_RETURN_IF_ERROR(
      capture_largest_first(runner->buckets_, options, runner->context(), report, record));
  return RunnerCapture{std::move(runner), std::move(report)};
}

Result<CaptureReport> PrefillGraphRunner::capture_bucket(int32_t size) {
  const int32_t found = buckets_.find(size, false);
  if (found >= 0) captured_[static_cast<size_t>(found)].for_later = false;
  return capture_later(
      buckets_, size, context(), [&](size_t index) { return !captured_[index].segments.empty(); },
      [&](size_t index, int32_t, BucketReport& report) {
        return record_bucket(size, captured_[index], report);
      });
}

int32_t PrefillGraphRunner::requests_of(int32_t bucket) const {
  return std::min(bucket, max_requests_);
}

Status PrefillGraphRunner::record_bucket(int32_t size, Bucket& bucket, BucketReport& report) {
  const NamedRange range(context().device(), "capture prefill", size);
  bucket.step = context().step_of(size, requests_of(size), false, &report.arena_bytes);
  Status status = mode_ == PrefillMode::kFull ? capture_full(bucket) : capture_breakable(bucket);
  if (!status.ok()) {
    bucket.segments.clear();
    return status;
  }
  for (const Segment& segment : bucket.segments) {
    const auto* graph = std::get_if<std::unique_ptr<DeviceGraph>>(&segment);
    if (graph == nullptr) continue;
    report.executable_bytes += (*graph)->executable_bytes();
    report.num_nodes += (*graph)->num_nodes();
    ++report.num_segments;
  }
  return {};
}

Status PrefillGraphRunner::capture_full(Bucket& bucket) {
  Device& device = context().device();
  const auto build = [&]() { return stack().forward(device.ops(), bucket.step); };
  ENCORE_ASSIGN_OR_RETURN(auto graph, record(device, build));
  bucket.segments.emplace_back(std::move(graph));
  return {};
}

Status PrefillGraphRunner::capture_breakable(Bucket& bucket) {
  Device& device = context().device();
  const Step& step = bucket.step;
  bucket.segments.emplace_back(
      [this, &step]() { return stack().embed(context().device().ops(), step); });
  // The eager segments call the device's ops directly, so the recorder need not outlive this call.
  BreakingOps ops(device, bucket.segments);
  ENCORE_RETURN_IF_ERROR(ops.open());
  const auto build = [&]() -> Status {
    const auto num_layers = static_cast<int32_t>(stack().spec().num_layers);
    for (int32_t layer = 0; layer < num_layers; ++layer) {
      ENCORE_RETURN_IF_ERROR(stack().layer(ops, step, layer));
      if (breaks_for_observer_) {
        ENCORE_RETURN_IF_ERROR(
            ops.break_for([this, &step, layer]() { return observe(step, layer); }));
      }
    }
    return {};
  };
  const Status built = build();
  if (ops.is_open()) {
    const Status closed = ops.close();
    if (built.ok()) ENCORE_RETURN_IF_ERROR(closed);
  }
  ENCORE_RETURN_IF_ERROR(built);
  bucket.segments.emplace_back(
      [this, &step]() { return stack().head(context().device().ops(), step); });
  return {};
}

Status PrefillGraphRunner::observe(const Step& step, int32_t layer) {
  if (!*observer_) return {};
  return call_observer(context().device(), *observer_, step.activations.hidden, layer, live_tokens_,
                       observed_);
}

void PrefillGraphRunner::drop_bucket(int32_t size) {
  const int32_t index = buckets_.find(size, false);
  if (index >= 0) captured_[static_cast<size_t>(index)].segments.clear();
}

RunnerCheck PrefillGraphRunner::check_bucket(const ForwardBatch& batch) const {
  if (*observer_ && !breaks_for_observer_) return {Reason::kObserved, 0};
  const int32_t index =
      serving_bucket(buckets_, batch.num_tokens(), padding_, [this](size_t bucket) {
        return captured_[bucket].segments.empty() && !captured_[bucket].for_later;
      });
  if (index < 0) {
    return {
        batch.num_tokens() > buckets_.maximum() ? Reason::kTooManyTokens : Reason::kNoExactBucket,
        0};
  }
  const int32_t bucket = buckets_.sizes()[static_cast<size_t>(index)];
  if (batch.num_requests() > requests_of(bucket)) return {Reason::kTooManyRequests, 0};
  const bool captured = !captured_[static_cast<size_t>(index)].segments.empty();
  return {captured ? Reason::kNone : Reason::kNotCaptured, bucket};
}

StepRunner::PaddedSize PrefillGraphRunner::padded_size(const ForwardBatch&, int32_t bucket) const {
  return {bucket, requests_of(bucket)};
}

Result<Matrix> PrefillGraphRunner::execute(const ForwardBatch& batch, int32_t bucket) {
  Bucket& captured = captured_[static_cast<size_t>(buckets_.find(bucket, false))];
  live_tokens_ = batch.num_tokens();
  for (Segment& segment : captured.segments) {
    if (auto* graph = std::get_if<std::unique_ptr<DeviceGraph>>(&segment)) {
      ENCORE_RETURN_IF_ERROR(context().device().launch(**graph));
    } else {
      ENCORE_RETURN_IF_ERROR(std::get<std::function<Status()>>(segment)());
    }
  }
  return captured.step.activations.logits;
}

}  // namespace encore::lowering
