// encore devices [CONFIG]: the devices of every backend, and the backends' options.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "config_flags.h"
#include "device_modes.h"
#include "exit_code.h"
#include "logging.h"
#include "open_backend.h"
#include "plugin_report.h"
#include "plugin_text.h"
#include "text_table.h"
#include "verbs.h"

namespace encore {
namespace {

void add_devices(const PluginReport& report, TextTable& table) {
  int32_t index = 0;
  for (const DeviceReport& device : report.devices) {
    table.add_row({report.record.name, std::to_string(index++), device.info.id, device.info.name,
                   device.info.architecture,
                   format_bytes(static_cast<double>(device.memory.free_bytes)) + " of " +
                       format_bytes(static_cast<double>(device.memory.total_bytes)),
                   capability_names(device.info.capabilities)});
  }
}

Result<int> devices(const ConfigFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.load());
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  int code = kExitOk;
  const auto note = [&code](const Status& status) {
    if (!status.ok()) code = std::max(code, report_error(status));
  };
  const Status required = registry->discover();
  // The one that a run would use must be there; of the others, what can be listed is.
  note(required.ok() ? usable_backend(*registry, loaded).status() : required);
  registry->load_all();
  const std::vector<PluginReport> reports = report_plugins(*registry, loaded);
  TextTable table({"backend", "device", "id", "name", "architecture", "free memory", "modes"});
  for (const PluginReport& report : reports) {
    if (report.record.state == PluginState::kUnavailable) {
      std::printf("%s is unavailable: %s\n", report.record.name.c_str(),
                  report.record.reason.c_str());
    }
    note(report.devices_status);
    add_devices(report, table);
  }
  std::fputs(table.text().c_str(), stdout);
  for (const PluginReport& report : reports) {
    if (report.options.empty()) continue;
    std::printf("\nbackend.options of %s\n", report.record.name.c_str());
    std::fputs(options_text(report.options).c_str(), stdout);
  }
  return code;
}

}  // namespace

void declare_devices(CLI::App& app, VerbAction& action) {
  CLI::App* verb = app.add_subcommand("devices", "List devices and the backends' options");
  auto flags = std::make_shared<ConfigFlags>();
  flags->declare(*verb, ConfigFlags::File::kOptional);
  verb->callback([flags, &action] {
    action = [flags] {
      const Result<int> result = devices(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace encore
