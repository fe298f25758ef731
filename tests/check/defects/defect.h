// A seeded defect: one thing that a plugin does wrong, so that the conformance kit is seen to find
// it.
//
// Every defective plugin is the CPU backend behind a thin layer (defective_backend.h) that asks the
// active defect at each call. The defect overrides one or two of the functions below and leaves the
// rest alone. What is wrong below the C++ interfaces is a TableDefect.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"

namespace encore::defects {

// What a runner was made for. References are to the sound objects of the CPU backend.
struct RunnerFacts {
  RunnerKind kind = RunnerKind::kEager;
  CaptureOptions options;
  KvCache* kv = nullptr;
};

// Each function does what a sound plugin does, unless overridden. Any thread may call them.
class Defect {
 public:
  virtual ~Defect() = default;

  virtual Status init(Backend& backend, const OptionValues& options);
  virtual void shutdown(Backend& backend);
  virtual Result<DeviceInfo> device_info(const Backend& backend, int32_t device);
  virtual std::vector<std::pair<std::string, int64_t>> stats(const Backend& backend);
  virtual Status check_model(const Backend& backend, int32_t device, const ModelSpec& spec,
                             std::span<const WeightInfo> weights);
  virtual Result<std::unique_ptr<Model>> load_model(Backend& backend, int32_t device,
                                                    const ModelSpec& spec,
                                                    const WeightSource& weights,
                                                    const LoadOptions& options);

  virtual Status set_layer_observer(Model& model, LayerObserver observer);
  virtual Status check_guards(const Model& model);
  virtual Status fail_capture(Model& model, int32_t bucket, Reason reason);
  virtual Result<std::unique_ptr<KvCache>> create_kv(Model& model, const KvOptions& options);
  virtual Status copy_pages(KvCache& kv, std::span<const PageCopy> copies);
  virtual Status read_page(const KvCache& kv, int32_t page, std::span<std::byte> destination);

  // Makes a runner of the given kind.
  virtual Result<RunnerCapture> capture(Model& model, const RunnerFacts& facts);
  // Puts a layer of the defect's own round a new runner: see defective_runner.h.
  virtual std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts);
};

// What a defect changes in the table of functions, before the host sees it.
using AlterTable = void (*)(encore_backend_table* table, const encore_host_info* host);

// One of `make` and `alter` is set.
struct DefectEntry {
  std::string_view name;
  std::unique_ptr<Defect> (*make)() = nullptr;
  AlterTable alter = nullptr;
};

template <typename DefectT>
DefectEntry defect(std::string_view name) {
  return {name, [] { return std::unique_ptr<Defect>(std::make_unique<DefectT>()); }, nullptr};
}

// The name of the defect that this library is built with; "none" is a sound plugin. Each library
// has a generated source with this one line.
extern const char* const kActiveDefect;

// Made at the first call, never destroyed. A sound one if the active defect is not of this kind.
Defect& active_defect();
// Null if the active defect leaves the table alone.
AlterTable active_table_defect();

}  // namespace encore::defects
