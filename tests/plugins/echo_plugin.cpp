// A backend that compares everything it is given with literals.h, fails naming the first field that
// differs, and answers with literals of its own.
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "encore/sdk/backend_plugin.h"
#include "literals.h"

namespace encore {
namespace {

Status equal(const std::string& difference) {
  return difference.empty() ? Status() : invalid_argument(difference);
}

class EchoKv : public KvCache {
 public:
  KvInfo info() const override { return literals::kv_info(); }

  Status copy_pages(std::span<const PageCopy> copies) override {
    const bool as_expected = copies.size() == 2 && copies[0].source == 1 &&
                             copies[0].destination == 2 && copies[1].source == 3 &&
                             copies[1].destination == 200;
    return equal(as_expected ? "" : "copies");
  }

  Status read_page(int32_t page, std::span<std::byte> destination) const override {
    for (size_t i = 0; i < destination.size(); ++i) {
      destination[i] = static_cast<std::byte>(static_cast<size_t>(page) + i);
    }
    return {};
  }
};

class EchoRunner : public Runner {
 public:
  explicit EchoRunner(RunnerKind kind) : kind_(kind) {}
  RunnerKind kind() const override { return kind_; }

  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    if (!compare(batch, output).ok()) return {.reason = Reason::kDisabled};
    return {.reason = Reason::kSlower, .bucket = 77};
  }

  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    ENCORE_RETURN_IF_ERROR(compare(batch, output));
    output_ = &output;  // borrowed until wait() returns
    return Ticket{0xABCDEF0123456789ULL};
  }

  Status wait(Ticket ticket, int64_t timeout_us) override {
    if (ticket != 0xABCDEF0123456789ULL) return equal("ticket");
    if (timeout_us == 5) return deadline_exceeded("5 us is too short");
    if (timeout_us != int64_t{1} << 44) return equal("timeout_us");
    literals::fill_output(*output_);
    return {};
  }

  Result<CaptureReport> capture_bucket(int32_t bucket) override {
    if (bucket != 16) return not_found("bucket " + std::to_string(bucket));
    return literals::bucket_capture_report();
  }

  Result<std::vector<TraceEvent>> trace(const ForwardBatch& batch,
                                        const StepOutput& output) override {
    ENCORE_RETURN_IF_ERROR(compare(batch, output));
    literals::fill_output(output);
    return literals::trace_events();
  }

 private:
  static Status compare(const ForwardBatch& batch, const StepOutput& output) {
    literals::Step step;
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(batch, step.batch())));
    return equal(literals::difference(output, step.output()));
  }

  RunnerKind kind_;
  const StepOutput* output_ = nullptr;
};

class EchoModel : public Model {
 public:
  ModelInfo info() const override { return literals::model_info(); }

  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override {
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(options, literals::kv_options())));
    return std::unique_ptr<KvCache>(std::make_unique<EchoKv>());
  }

  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override {
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(kv, literals::kv_options())));
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(options, literals::capture_options())));
    return literals::memory_plan();
  }

  Result<RunnerCapture> create_eager(KvCache& /*kv*/, const CaptureOptions& options) override {
    return capture(RunnerKind::kEager, options);
  }
  Result<RunnerCapture> capture_prefill(KvCache& /*kv*/, const CaptureOptions& options) override {
    return capture(RunnerKind::kPrefillGraph, options);
  }
  Result<RunnerCapture> capture_decode(KvCache& /*kv*/, const CaptureOptions& options) override {
    return capture(RunnerKind::kDecodeGraph, options);
  }

  Status set_layer_observer(LayerObserver observer) override {
    const float hidden[6] = {1, 2, 3, 4, 5, 6};
    if (observer) observer({.layer = 9, .num_tokens = 2, .hidden_size = 3, .hidden = hidden});
    return {};
  }

  Status check_guards() const override { return internal_error("guard of 'echo' is damaged"); }

  Status fail_capture(int32_t bucket, Reason reason) override {
    return internal_error("bucket " + std::to_string(bucket) + ", reason " +
                          std::to_string(static_cast<int32_t>(reason)));
  }

 private:
  static Result<RunnerCapture> capture(RunnerKind kind, const CaptureOptions& options) {
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(options, literals::capture_options())));
    if (options.progress) options.progress(1, 2);
    RunnerCapture made;
    made.runner = std::make_unique<EchoRunner>(kind);
    made.report = literals::capture_report();
    return made;
  }
};

class EchoBackend : public Backend {
 public:
  BackendIdentity identity() const override { return literals::identity(); }
  std::vector<OptionSchema> option_schema() const override { return literals::schema(); }
  ProbeResult probe() const override { return {.usable = false, .reason = "no mirror here"}; }
  Status init(const OptionValues& options) override {
    return equal(options == literals::option_values() ? "" : "option values");
  }
  void shutdown() override {}
  int32_t device_count() const override { return 7; }
  Result<DeviceInfo> device_info(int32_t device) const override {
    if (device != 1) return not_found("device " + std::to_string(device));
    return literals::device_info();
  }
  Result<DeviceMemory> device_memory(int32_t /*device*/) const override {
    return DeviceMemory{.total_bytes = int64_t{1} << 45, .free_bytes = 702};
  }
  Result<DeviceLimits> measure_limits(int32_t /*device*/) override {
    return DeviceLimits{.read_bytes_per_s = 1.5e12, .matmul_ops_per_s = 2.5e15};
  }

  Status check_model(int32_t device, const ModelSpec& spec,
                     std::span<const WeightInfo> weights) const override {
    if (device != 1) return equal("device");
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(spec, literals::spec())));
    return equal(literals::difference(std::vector<WeightInfo>(weights.begin(), weights.end()),
                                      literals::weights()));
  }

  Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    ENCORE_RETURN_IF_ERROR(check_model(device, spec, weights.weights()));
    ENCORE_RETURN_IF_ERROR(equal(literals::difference(options, literals::load_options())));
    ENCORE_RETURN_IF_ERROR(check_bytes(weights));
    if (options.progress && !options.progress(int64_t{1} << 46, int64_t{1} << 47)) {
      return cancelled("stopped at half");
    }
    return std::unique_ptr<Model>(std::make_unique<EchoModel>());
  }

  std::vector<std::pair<std::string, int64_t>> stats() const override {
    return {{"first", int64_t{1} << 48}, {"second", -2}};
  }
  Status selftest(int32_t device) override {
    return device == 1 ? Status() : internal_error("kernel 'mirror' gave 3, expected 4");
  }

 private:
  // Weight i holds the bytes i, i+1, ...; weight 0 can be mapped, weight 1 cannot.
  static Status check_bytes(const WeightSource& weights) {
    std::byte part[3];
    ENCORE_RETURN_IF_ERROR(weights.read(1, 4, part));
    if (part[0] != std::byte{5} || part[2] != std::byte{7}) return equal("bytes read");
    if (weights.read(1, 10, part).code() != StatusCode::kInvalidArgument) return equal("overrun");
    if (weights.map(0) == nullptr || weights.map(0)[31] != std::byte{31}) return equal("map(0)");
    if (weights.map(1) != nullptr) return equal("map(1)");
    weights.release(0);
    Status elsewhere;
    std::thread([&] { elsewhere = weights.read(0, 0, part); }).join();
    return elsewhere;
  }
};

}  // namespace
}  // namespace encore

ENCORE_EXPORT_BACKEND(encore::EchoBackend)
