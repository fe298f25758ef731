// encore plugins list [CONFIG]: the backends that can be found, and what they say of themselves.
#include <cstdio>
#include <memory>
#include <string>

#include "config_flags.h"
#include "exit_code.h"
#include "logging.h"
#include "open_backend.h"
#include "text_table.h"
#include "verbs.h"

namespace encore {
namespace {

Result<int> list(const ConfigFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.load());
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  Status first_error = registry->load_configured();
  for (const std::string& name : backend_names_on_disk(loaded.config)) {
    const Result<Backend*> backend = registry->find(name);
    if (!backend.ok() && first_error.ok()) first_error = backend.status();
  }
  TextTable table({"backend", "version", "vendor", "build", "usable", "path"});
  for (const std::unique_ptr<LoadedPlugin>& plugin : registry->plugins()) {
    const BackendIdentity identity = plugin->backend->identity();
    const ProbeResult probe = plugin->backend->probe();
    table.add_row({identity.name, identity.version, identity.vendor, identity.build_id,
                   probe.usable ? "yes" : "unavailable: " + probe.reason, plugin->path});
  }
  std::fputs(table.text().c_str(), stdout);
  for (const LoadFailure& failure : registry->failures()) {
    std::printf("failed at stage %s: %s: %s\n", std::string(load_stage_name(failure.stage())).c_str(),
                failure.path.c_str(), failure.message.c_str());
  }
  if (registry->plugins().empty() && registry->failures().empty()) {
    std::printf("no plugin found; looked in plugins.load, plugins.dirs and %s\n",
                installed_plugin_dir().c_str());
  }
  if (!first_error.ok()) return report_error(first_error);
  return kExitOk;
}

}  // namespace

void declare_plugins(CLI::App& app, VerbAction& action) {
  CLI::App* plugins = app.add_subcommand("plugins", "Backend plugins");
  plugins->require_subcommand(1);
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* verb = plugins->add_subcommand("list", "List the plugins that can be found");
  flags->declare(*verb, ConfigFlags::File::kOptional);
  verb->callback([flags, &action] {
    action = [flags] {
      const Result<int> result = list(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace encore
