// encore devices [CONFIG]: the devices of every backend, and the backends' options.
#include <cstdio>
#include <memory>
#include <string>

#include "config_flags.h"
#include "device_modes.h"
#include "exit_code.h"
#include "logging.h"
#include "open_backend.h"
#include "text_table.h"
#include "verbs.h"

namespace encore {
namespace {

void print_options(const std::string& name, const Backend& backend) {
  const std::vector<OptionSchema> schema = backend.option_schema();
  if (schema.empty()) return;
  std::printf("\nbackend.options of %s\n", name.c_str());
  TextTable table({"option", "default", "value", "meaning"});
  for (const OptionSchema& option : schema) {
    table.add_row({option.key, option.default_value, describe_option(option), option.help});
  }
  std::fputs(table.text().c_str(), stdout);
}

// Options of the configuration belong to its own backend; others start with their defaults.
Status start(const LoadedConfig& loaded, const std::string& name, Backend& backend) {
  LoadedConfig own = loaded;
  if (name != loaded.config.backend.name) own.config.backend.options.clear();
  ENCORE_ASSIGN_OR_RETURN(const OptionValues options,
                          checked_options(own, backend.option_schema()));
  return backend.init(options);
}

Status add_devices(const std::string& name, Backend& backend, TextTable& table) {
  for (int32_t device = 0; device < backend.device_count(); ++device) {
    ENCORE_ASSIGN_OR_RETURN(const DeviceInfo info, backend.device_info(device));
    ENCORE_ASSIGN_OR_RETURN(const DeviceMemory memory, backend.device_memory(device));
    table.add_row({name, std::to_string(device), info.id, info.name, info.architecture,
                   format_bytes(static_cast<double>(memory.free_bytes)) + " of " +
                       format_bytes(static_cast<double>(memory.total_bytes)),
                   capability_names(info.capabilities)});
  }
  return {};
}

Result<int> devices(const ConfigFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.load());
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  int code = kExitOk;
  const auto note = [&code](const Status& status) {
    if (!status.ok()) code = report_error(status);
  };
  note(registry->load_configured());
  for (const std::string& name : backend_names_on_disk(loaded.config)) {
    if (const Result<Backend*> found = registry->find(name); !found.ok()) note(found.status());
  }
  TextTable table({"backend", "device", "id", "name", "architecture", "free memory", "modes"});
  for (const std::unique_ptr<LoadedPlugin>& plugin : registry->plugins()) {
    const ProbeResult probe = plugin->backend->probe();
    if (!probe.usable) {
      std::printf("%s is unavailable: %s\n", plugin->name.c_str(), probe.reason.c_str());
      continue;
    }
    Status status = start(loaded, plugin->name, *plugin->backend);
    if (status.ok()) status = add_devices(plugin->name, *plugin->backend, table);
    note(status);
  }
  std::fputs(table.text().c_str(), stdout);
  for (const std::unique_ptr<LoadedPlugin>& plugin : registry->plugins()) {
    print_options(plugin->name, *plugin->backend);
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
