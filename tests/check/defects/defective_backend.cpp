#include "defective_backend.h"

#include <utility>

#include "cpu_backend.h"
#include "defect.h"

namespace encore::defects {
namespace {

class DefectiveKvCache final : public KvCache {
 public:
  explicit DefectiveKvCache(std::unique_ptr<KvCache> sound) : sound_(std::move(sound)) {}

  KvCache& sound() { return *sound_; }
  KvInfo info() const override { return sound_->info(); }
  Status copy_pages(std::span<const PageCopy> copies) override {
    return active_defect().copy_pages(*sound_, copies);
  }
  Status read_page(int32_t page, std::span<std::byte> destination) const override {
    return active_defect().read_page(*sound_, page, destination);
  }

 private:
  std::unique_ptr<KvCache> sound_;
};

class DefectiveModel final : public Model {
 public:
  explicit DefectiveModel(std::unique_ptr<Model> sound) : sound_(std::move(sound)) {}

  ModelInfo info() const override { return sound_->info(); }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override {
    ENCORE_ASSIGN_OR_RETURN(auto kv, active_defect().create_kv(*sound_, options));
    return std::unique_ptr<KvCache>(std::make_unique<DefectiveKvCache>(std::move(kv)));
  }
  Result<MemoryPlan> plan_memory(const KvOptions& kv, const CaptureOptions& options) override {
    return sound_->plan_memory(kv, options);
  }
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override {
    return capture(RunnerKind::kEager, kv, options);
  }
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override {
    return capture(RunnerKind::kPrefillGraph, kv, options);
  }
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override {
    return capture(RunnerKind::kDecodeGraph, kv, options);
  }
  Status set_layer_observer(LayerObserver observer) override {
    return active_defect().set_layer_observer(*sound_, std::move(observer));
  }
  Status check_guards() const override { return active_defect().check_guards(*sound_); }
  Status fail_capture(int32_t bucket, Reason reason) override {
    return active_defect().fail_capture(*sound_, bucket, reason);
  }

 private:
  Result<RunnerCapture> capture(RunnerKind kind, KvCache& kv, const CaptureOptions& options) {
    const RunnerFacts facts{kind, options, &static_cast<DefectiveKvCache&>(kv).sound()};
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture, active_defect().capture(*sound_, facts));
    capture.runner = active_defect().wrap(std::move(capture.runner), facts);
    return capture;
  }

  std::unique_ptr<Model> sound_;
};

}  // namespace

DefectiveBackend::DefectiveBackend() : sound_(std::make_unique<cpu::CpuBackend>()) {}

BackendIdentity DefectiveBackend::identity() const {
  return {"encore.defective", "Encore's tests", "1", kActiveDefect};
}

std::vector<OptionSchema> DefectiveBackend::option_schema() const {
  return sound_->option_schema();
}

ProbeResult DefectiveBackend::probe() const { return sound_->probe(); }

Status DefectiveBackend::init(const OptionValues& options) {
  return active_defect().init(*sound_, options);
}

void DefectiveBackend::shutdown() { active_defect().shutdown(*sound_); }

int32_t DefectiveBackend::device_count() const { return sound_->device_count(); }

Result<DeviceInfo> DefectiveBackend::device_info(int32_t device) const {
  return active_defect().device_info(*sound_, device);
}

Result<DeviceMemory> DefectiveBackend::device_memory(int32_t device) const {
  return sound_->device_memory(device);
}

Result<DeviceLimits> DefectiveBackend::measure_limits(int32_t device) {
  return sound_->measure_limits(device);
}

Status DefectiveBackend::check_model(int32_t device, const ModelSpec& spec,
                                     std::span<const WeightInfo> weights) const {
  return active_defect().check_model(*sound_, device, spec, weights);
}

Result<std::unique_ptr<Model>> DefectiveBackend::load_model(int32_t device, const ModelSpec& spec,
                                                            const WeightSource& weights,
                                                            const LoadOptions& options) {
  ENCORE_ASSIGN_OR_RETURN(auto model,
                          active_defect().load_model(*sound_, device, spec, weights, options));
  return std::unique_ptr<Model>(std::make_unique<DefectiveModel>(std::move(model)));
}

std::vector<std::pair<std::string, int64_t>> DefectiveBackend::stats() const {
  return active_defect().stats(*sound_);
}

Status DefectiveBackend::selftest(int32_t device) { return sound_->selftest(device); }

}  // namespace encore::defects
