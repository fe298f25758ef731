// Model, KvCache and Runner over the fake device, with faults to order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/buckets.h"
#include "fake_device.h"

namespace encore::fake {

class FakeKv : public KvCache {
 public:
  explicit FakeKv(const KvOptions& options) : options_(options), device_(options) {}
  KvInfo info() const override {
    return {options_.num_pages, options_.page_size, 8L * options_.page_size,
            8L * options_.page_size * options_.num_pages};
  }
  Status copy_pages(std::span<const PageCopy>) override { return unimplemented("not needed"); }
  Status read_page(int32_t, std::span<std::byte>) const override {
    return unimplemented("not needed");
  }
  Device& device() { return device_; }

 private:
  KvOptions options_;
  Device device_;
};

class FakeRunner : public Runner {
 public:
  FakeRunner(RunnerKind kind, Device& device, const CaptureOptions& options, Buckets buckets,
             const Reason* injected)
      : kind_(kind),
        device_(device),
        limits_(options.limits),
        padding_(options.padding),
        buckets_(std::move(buckets)),
        injected_(injected) {}

  RunnerKind kind() const override { return kind_; }

  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    if (*injected_ != Reason::kNone) return {*injected_, 0};
    if (batch.num_requests() > limits_.max_requests) return {Reason::kTooManyRequests, 0};
    if (std::ssize(batch.history) > limits_.max_history) return {Reason::kHistoryTooLong, 0};
    if (std::ssize(batch.biases) > limits_.max_biases) return {Reason::kTooManyBiases, 0};
    if (output.top_logprobs_width > limits_.max_logprobs) return {Reason::kTooManyLogprobs, 0};
    if (kind_ == RunnerKind::kEager) return {};
    const bool decode = kind_ == RunnerKind::kDecodeGraph;
    if (decode && batch.num_tokens() != batch.num_requests()) return {Reason::kNotDecode, 0};
    if (buckets_.empty()) return {Reason::kNotCaptured, 0};
    const int32_t size = decode ? batch.num_requests() : batch.num_tokens();
    const int32_t index = buckets_.find(size, padding_);
    if (index >= 0) {
      const int32_t bucket = buckets_.sizes()[index];
      return {pending.count(bucket) > 0 ? Reason::kNotCaptured : Reason::kNone, bucket};
    }
    if (!padding_ && size <= buckets_.maximum()) return {Reason::kNoExactBucket, 0};
    return {decode ? Reason::kTooManyRequests : Reason::kTooManyTokens, 0};
  }

  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    if (batch.q_start.size() != batch.kv_len.size() + 1 ||
        batch.q_start.back() != batch.num_tokens() ||
        batch.page_start.size() != batch.kv_len.size() + 1 ||
        batch.page_start.back() != std::ssize(batch.page_ids) ||
        batch.sampling.size() != batch.logit_rows.size() ||
        output.tokens.size() != batch.logit_rows.size()) {
      return invalid_argument("the batch contradicts itself");
    }
    const auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
    Work work;
    work.token_ids = copy(batch.token_ids);
    work.positions = copy(batch.positions);
    work.q_start = copy(batch.q_start);
    work.kv_len = copy(batch.kv_len);
    work.page_start = copy(batch.page_start);
    work.page_ids = copy(batch.page_ids);
    work.logit_rows = copy(batch.logit_rows);
    work.sampling = copy(batch.sampling);
    work.bias_start = copy(batch.bias_start);
    work.biases = copy(batch.biases);
    work.history_start = copy(batch.history_start);
    work.history = copy(batch.history);
    work.num_valid_tokens = batch.num_valid_tokens;
    work.output = output;
    return device_.enqueue(std::move(work));
  }

  Status wait(Ticket ticket, int64_t) override { return device_.wait(ticket); }

  Result<CaptureReport> capture_bucket(int32_t bucket) override {
    if (pending.erase(bucket) == 0) return not_found("no such bucket");
    captured_later.push_back(bucket);
    CaptureReport report;
    report.buckets.emplace_back().bucket = bucket;
    report.executable_bytes = 100;
    return report;
  }

  std::set<int32_t> pending;            // of a lazy runner
  std::vector<int32_t> captured_later;  // in order

 private:
  RunnerKind kind_;
  Device& device_;
  RunnerLimits limits_;
  bool padding_;
  Buckets buckets_;
  const Reason* injected_;
};

class FakeModel : public Model {
 public:
  // Buckets that do not capture, and answers that replace a runner's own.
  std::set<int32_t> failing_buckets;
  Status fail_prefill, fail_decode, fail_guards;
  bool give_no_runner = false;
  Reason eager_reason = Reason::kNone, prefill_reason = Reason::kNone,
         decode_reason = Reason::kNone;
  std::vector<std::string> calls;  // in order

  ModelInfo info() const override { return {}; }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override {
    return std::unique_ptr<KvCache>(std::make_unique<FakeKv>(options));
  }
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override {
    return make(RunnerKind::kEager, kv, options, {}, {}, &eager_reason);
  }
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override {
    return make(RunnerKind::kPrefillGraph, kv, options, options.prefill_buckets, fail_prefill,
                &prefill_reason);
  }
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override {
    return make(RunnerKind::kDecodeGraph, kv, options, options.decode_buckets, fail_decode,
                &decode_reason);
  }
  Status set_layer_observer(LayerObserver) override { return unimplemented("not needed"); }
  Status check_guards() const override { return fail_guards; }

 private:
  Result<RunnerCapture> make(RunnerKind kind, KvCache& kv, const CaptureOptions& options,
                             const std::vector<int32_t>& sizes, const Status& failure,
                             const Reason* injected) {
    calls.emplace_back(runner_kind_name(kind));
    if (!failure.ok()) return failure;
    RunnerCapture capture;
    std::vector<int32_t> captured;
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
      BucketReport report;
      report.bucket = *size;
      if (failing_buckets.count(*size) > 0) {
        report.reason = Reason::kCaptureFailed;
      } else if (options.lazy) {
        report.reason = Reason::kNotCaptured;
        captured.push_back(*size);
      } else {
        report.executable_bytes = 100;
        capture.report.executable_bytes += 100;
        captured.push_back(*size);
      }
      capture.report.buckets.push_back(report);
    }
    Buckets buckets;
    if (!captured.empty()) buckets = *Buckets::create(captured, captured.front());
    if (give_no_runner) return capture;
    auto runner = std::make_unique<FakeRunner>(kind, dynamic_cast<FakeKv&>(kv).device(), options,
                                               std::move(buckets), injected);
    if (options.lazy) runner->pending.insert(captured.begin(), captured.end());
    capture.runner = std::move(runner);
    return capture;
  }
};

}  // namespace encore::fake
