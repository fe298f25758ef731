#include "memory_ledger.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text_table.h"

namespace encore {
namespace {

struct Line {
  const char* name;  // for people; the key in JSON is the same with underscores
  const char* key;
  int64_t MemoryLedger::*bytes;
};

constexpr Line kLines[] = {
    {"weights", "weight_bytes", &MemoryLedger::weights},
    {"KV cache", "kv_bytes", &MemoryLedger::kv},
    {"arena", "arena_bytes", &MemoryLedger::arena},
    {"static buffers", "static_bytes", &MemoryLedger::static_buffers},
    {"workspaces", "workspace_bytes", &MemoryLedger::workspaces},
    {"executables", "executable_bytes", &MemoryLedger::executables},
    {"library context", "context_bytes", &MemoryLedger::context},
    {"other", "other_bytes", &MemoryLedger::other},
};

int64_t stat_of(const Backend& backend, std::string_view name) {
  for (const auto& [key, value] : backend.stats()) {
    if (key == name) return std::max<int64_t>(value, 0);
  }
  return 0;
}

// By whomever.
Result<int64_t> used_bytes(const Backend& backend, int32_t first_device, int32_t num_devices) {
  int64_t used = 0;
  for (int32_t device = first_device; device < first_device + num_devices; ++device) {
    ENCORE_ASSIGN_OR_RETURN(const DeviceMemory memory, backend.device_memory(device));
    used += memory.total_bytes - memory.free_bytes;
  }
  return used;
}

}  // namespace

double MemoryLedger::difference_percent() const {
  if (!measured || used <= 0) return 0.0;
  return 100.0 * static_cast<double>(sum() - used) / static_cast<double>(used);
}

Result<MemoryBaseline> measure_baseline(const Backend& backend, int32_t first_device,
                                        int32_t num_devices) {
  ENCORE_ASSIGN_OR_RETURN(const DeviceInfo info, backend.device_info(first_device));
  MemoryBaseline baseline;
  baseline.first_device = first_device;
  baseline.num_devices = std::min(num_devices, backend.device_count() - first_device);
  baseline.has_own_memory = (info.capabilities & kCapabilityDeviceMemory) != 0;
  if (!baseline.has_own_memory) return baseline;
  // Asked first: this may be what makes the backend's context.
  ENCORE_ASSIGN_OR_RETURN(const int64_t used,
                          used_bytes(backend, first_device, baseline.num_devices));
  baseline.used = std::max<int64_t>(0, used - stat_of(backend, kContextBytesStat));
  return baseline;
}

Result<MemoryLedger> make_ledger(const Backend& backend, const MemoryBaseline& baseline,
                                 const ModelInfo& model, const KvInfo& kv,
                                 const CaptureSummary& capture) {
  MemoryLedger ledger;
  ledger.weights = model.weight_bytes;
  ledger.mapped = model.mapped_bytes;
  ledger.kv = kv.total_bytes;
  ledger.workspaces = model.workspace_bytes;
  for (const CaptureReport* report : {&capture.eager, &capture.prefill, &capture.decode}) {
    ledger.arena += report->arena_bytes;
    ledger.static_buffers += report->static_bytes;
    ledger.workspaces += report->workspace_bytes;
    ledger.executables += report->executable_bytes;
    ledger.staging += report->host_bytes;
  }
  if (baseline.has_own_memory) ledger.static_buffers -= ledger.staging;
  ledger.context = stat_of(backend, kContextBytesStat);
  // What the backend allocated and reports under no other name. Executables are the driver's.
  const int64_t named = ledger.sum() - ledger.context - ledger.executables;
  const int64_t allocated = stat_of(backend, kAllocatedBytesStat);
  ledger.other = std::max<int64_t>(0, allocated - named);
  if (!baseline.has_own_memory) {
    ledger.staging = 0;
    return ledger;
  }
  ENCORE_ASSIGN_OR_RETURN(const int64_t used,
                          used_bytes(backend, baseline.first_device, baseline.num_devices));
  ledger.measured = true;
  ledger.used = used - baseline.used;
  return ledger;
}

std::string ledger_table(const MemoryLedger& ledger) {
  const auto bytes = [](int64_t count) { return format_bytes(static_cast<double>(count)); };
  TextTable table({"memory", "bytes", "note"});
  for (const Line& line : kLines) {
    const bool mapped = line.bytes == &MemoryLedger::weights && ledger.mapped > 0;
    table.add_row({line.name, bytes(ledger.*line.bytes),
                   mapped ? bytes(ledger.mapped) + " of it in mapped files" : ""});
  }
  table.add_row({"sum", bytes(ledger.sum()), ""});
  if (ledger.measured) {
    table.add_row({"used, says the device", bytes(ledger.used),
                   "the sum differs by " + format_number(ledger.difference_percent(), 2) + " %"});
    table.add_row({"staging on the host", bytes(ledger.staging), "not part of the sum"});
  }
  return table.text();
}

nlohmann::ordered_json ledger_json(const MemoryLedger& ledger) {
  nlohmann::ordered_json json;
  for (const Line& line : kLines) json[line.key] = ledger.*line.bytes;
  json["mapped_bytes"] = ledger.mapped;
  json["sum_bytes"] = ledger.sum();
  if (ledger.measured) {
    json["device_used_bytes"] = ledger.used;
    json["difference_percent"] = ledger.difference_percent();
    json["host_staging_bytes"] = ledger.staging;
  }
  return json;
}

}  // namespace encore
