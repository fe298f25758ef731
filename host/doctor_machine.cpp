// Drivers and run-time libraries, and which of the CPU plugin's variants this processor can run.
#include <algorithm>
#include <string>
#include <vector>

#include "doctor.h"
#include "driver_versions.h"

namespace encore {
namespace {

// A level that code may be built for, and what it takes.
struct Level {
  std::string name;
  std::vector<std::string> requirements;
};

// What is asked for where no manifest says so.
std::vector<Level> default_levels() {
  const std::vector<std::string> avx2 = {"avx2", "fma", "f16c"};
  std::vector<std::string> avx512 = avx2;
  avx512.insert(avx512.end(), {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"});
  std::vector<std::string> amx = avx512;
  amx.insert(amx.end(), {"avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"});
  return {{"generic", {}}, {"avx2", avx2}, {"avx512", avx512}, {"amx", amx}};
}

const PluginRecord* cpu_record(const Examined& examined) {
  for (const PluginReport& report : examined.plugins) {
    const PluginRecord& record = report.record;
    if (record.name == "cpu" && !record.variants.empty()) return &record;
  }
  return nullptr;
}

// The variants of the CPU plugin, plainest first.
std::vector<Level> levels_of(const PluginRecord* record) {
  if (record == nullptr) return default_levels();
  const Result<Manifest> manifest = read_manifest(record->manifest);
  if (!manifest.ok()) return default_levels();
  std::vector<Level> levels;
  for (const ManifestVariant& variant : manifest->variants) {
    levels.push_back({variant.name, variant.requirements});
  }
  std::reverse(levels.begin(), levels.end());
  return levels;
}

const VariantVerdict* verdict_of(const PluginRecord* record, const std::string& name) {
  if (record == nullptr) return nullptr;
  const auto found = std::find_if(record->variants.begin(), record->variants.end(),
                                  [&](const VariantVerdict& each) { return each.name == name; });
  return found == record->variants.end() ? nullptr : &*found;
}

const char* yes_or_no(bool yes) { return yes ? "yes" : "no"; }

HealthCheck check_level(const Level& level, const PluginRecord* record, const CpuIsa& isa) {
  bool in_processor = true;
  bool in_system = true;
  bool permitted = true;
  bool asks = false;  // only AMX takes permission
  for (const std::string& name : level.requirements) {
    const CpuFeature* feature = isa.find(name);
    in_processor = in_processor && feature != nullptr && feature->in_processor;
    in_system = in_system && feature != nullptr && feature->in_system;
    permitted = permitted && feature != nullptr && feature->permitted;
    asks = asks || name.starts_with("amx");
  }
  const VariantVerdict* verdict = verdict_of(record, level.name);
  const bool chosen = verdict != nullptr && verdict->state == VariantState::kChosen;
  HealthCheck check;
  check.name = level.name;
  check.cells = {yes_or_no(in_processor), yes_or_no(in_system),
                 asks ? yes_or_no(permitted) : "not needed", yes_or_no(chosen)};
  check.detail = isa.why_not(level.requirements);
  check.verdict = check.detail.empty() ? Verdict::kOk : Verdict::kSkip;
  if (verdict != nullptr && verdict->state == VariantState::kRejected) {
    check.verdict = Verdict::kWarn;
    check.detail = verdict->reason;
    check.next_step = "install the plugin again; `encore plugins describe cpu` says what failed";
  } else if (check.detail.empty() && verdict != nullptr && !chosen) {
    check.detail = verdict->reason;
  }
  return check;
}

}  // namespace

HealthSection check_machine() {
  HealthSection section{"machine", "Drivers and run-time libraries", {}, {}};
  const std::vector<Component> components = find_components();
  bool module_loaded = false;  // of the vendor whose library comes next
  for (const Component& component : components) {
    const bool is_there = !component.version.empty();
    const bool is_module = component.name.ends_with("kernel module");
    if (is_there) {
      section.ok(component.name, component.version + " (" + component.detail + ")");
    } else if (!is_module && module_loaded) {
      section.warn(component.name, component.detail,
                   "install the driver's libraries beside its kernel module, or start the "
                   "container with access to the GPU");
    } else {
      section.skip(component.name, component.detail);
    }
    module_loaded = is_module && is_there;
  }
  return section;
}

HealthSection check_isa(const Examined& examined, const CpuIsa& isa) {
  HealthSection section{"isa",
                        "Instruction sets: " + (isa.brand().empty() ? "unknown CPU" : isa.brand()),
                        {"cpu", "operating_system", "permission", "chosen"},
                        {}};
  const PluginRecord* record = cpu_record(examined);
  for (const Level& level : levels_of(record)) {
    section.checks.push_back(check_level(level, record, isa));
  }
  return section;
}

}  // namespace encore
