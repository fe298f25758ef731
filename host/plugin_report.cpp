#include "plugin_report.h"

#include "encore/backend_abi.h"
#include "open_backend.h"

namespace encore {
namespace {

Result<DeviceReport> report_device(const Backend& backend, int32_t device) {
  DeviceReport report;
  ENCORE_ASSIGN_OR_RETURN(report.info, backend.device_info(device));
  ENCORE_ASSIGN_OR_RETURN(report.memory, backend.device_memory(device));
  return report;
}

void report_devices(PluginReport& report) {
  const Backend& backend = *report.record.backend;
  for (int32_t device = 0; device < backend.device_count(); ++device) {
    Result<DeviceReport> found = report_device(backend, device);
    if (found.ok()) {
      report.devices.push_back(*std::move(found));
    } else if (report.devices_status.ok()) {
      report.devices_status = {found.status().code(), "device " + std::to_string(device) + ": " +
                                                          found.status().message()};
    }
  }
}

}  // namespace

std::vector<PluginReport> report_plugins(const PluginRegistry& registry,
                                         const LoadedConfig& loaded) {
  std::vector<PluginReport> reports;
  for (const PluginRecord& record : registry.entries()) {
    PluginReport report;
    report.record = record;
    if (record.backend != nullptr) report.options = record.backend->option_schema();
    if (record.state == PluginState::kLoaded) {
      report.devices_status = init_backend(loaded, record.name, *record.backend);
      if (report.devices_status.ok()) report_devices(report);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string label_of(const PluginRecord& record) {
  if (!record.name.empty()) return record.name;
  if (!record.path.empty()) return record.path;
  return record.manifest;
}

std::string abi_text(AbiVersion version) {
  if (version.major == 0 && version.minor == 0) return "-";
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

AbiVersion host_abi() { return {ENCORE_ABI_MAJOR, ENCORE_ABI_MINOR}; }

std::string failure_text(const LoadFailure& failure) {
  return failure.path + ": stage " + std::string(load_stage_name(failure.stage())) + ": " +
         std::string(load_code_name(failure.code)) + " (" +
         std::to_string(static_cast<int32_t>(failure.code)) + "): " + failure.message;
}

}  // namespace encore
