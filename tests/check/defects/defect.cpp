#include "defect.h"

#include "defect_families.h"

namespace encore::defects {

Status Defect::init(Backend& backend, const OptionValues& options) { return backend.init(options); }

void Defect::shutdown(Backend& backend) { backend.shutdown(); }

Result<DeviceInfo> Defect::device_info(const Backend& backend, int32_t device) {
  return backend.device_info(device);
}

std::vector<std::pair<std::string, int64_t>> Defect::stats(const Backend& backend) {
  return backend.stats();
}

Status Defect::check_model(const Backend& backend, int32_t device, const ModelSpec& spec,
                           std::span<const WeightInfo> weights) {
  return backend.check_model(device, spec, weights);
}

Result<std::unique_ptr<Model>> Defect::load_model(Backend& backend, int32_t device,
                                                  const ModelSpec& spec,
                                                  const WeightSource& weights,
                                                  const LoadOptions& options) {
  return backend.load_model(device, spec, weights, options);
}

Status Defect::set_layer_observer(Model& model, LayerObserver observer) {
  return model.set_layer_observer(std::move(observer));
}

Status Defect::check_guards(const Model& model) { return model.check_guards(); }

Status Defect::fail_capture(Model& model, int32_t bucket, Reason reason) {
  return model.fail_capture(bucket, reason);
}

Result<std::unique_ptr<KvCache>> Defect::create_kv(Model& model, const KvOptions& options) {
  return model.create_kv(options);
}

Status Defect::copy_pages(KvCache& kv, std::span<const PageCopy> copies) {
  return kv.copy_pages(copies);
}

Status Defect::read_page(const KvCache& kv, int32_t page, std::span<std::byte> destination) {
  return kv.read_page(page, destination);
}

Result<RunnerCapture> Defect::capture(Model& model, const RunnerFacts& facts) {
  switch (facts.kind) {
    case RunnerKind::kPrefillGraph:
      return model.capture_prefill(*facts.kv, facts.options);
    case RunnerKind::kDecodeGraph:
      return model.capture_decode(*facts.kv, facts.options);
    case RunnerKind::kEager:
      break;
  }
  return model.create_eager(*facts.kv, facts.options);
}

std::unique_ptr<Runner> Defect::wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) {
  static_cast<void>(facts);
  return runner;
}

namespace {

// Null if no family knows the active defect: it is then in how the library was built.
const DefectEntry* active_entry() {
  for (const auto family : kFamilies) {
    for (const DefectEntry& entry : family()) {
      if (entry.name == kActiveDefect) return &entry;
    }
  }
  return nullptr;
}

}  // namespace

Defect& active_defect() {
  static Defect* const active = [] {
    const DefectEntry* entry = active_entry();
    return entry == nullptr || entry->make == nullptr ? new Defect : entry->make().release();
  }();
  return *active;
}

AlterTable active_table_defect() {
  const DefectEntry* entry = active_entry();
  return entry == nullptr ? nullptr : entry->alter;
}

}  // namespace encore::defects
