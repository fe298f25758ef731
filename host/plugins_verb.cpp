// encore plugins list [CONFIG]: every plugin that was found, the rejected ones and why.
// encore plugins describe NAME [CONFIG]: one plugin, with its options, extensions and variants.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/suggest.h"
#include "config_flags.h"
#include "exit_code.h"
#include "logging.h"
#include "open_backend.h"
#include "plugin_json.h"
#include "plugin_report.h"
#include "plugin_text.h"
#include "verbs.h"

namespace encore {
namespace {

struct PluginsFlags {
  ConfigFlags config;
  std::string name;
  bool json = false;
};

// Names and reasons are text from elsewhere: what is not UTF-8 is replaced.
void print_json(const nlohmann::ordered_json& json) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", json.dump(2, ' ', false, kReplace).c_str());
}

Result<int> list(const PluginsFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  const Status required = registry->discover();
  registry->load_all();
  const std::vector<PluginReport> reports = report_plugins(*registry, loaded);
  if (flags.json) {
    print_json(plugin_list_json(reports, registry->searched()));
  } else {
    std::fputs(plugin_list_text(reports, registry->searched()).c_str(), stdout);
  }
  return required.ok() ? kExitOk : report_error(required);
}

Status unknown_plugin(const std::string& name, const std::vector<PluginReport>& reports) {
  std::vector<std::string> names;
  names.reserve(reports.size());
  for (const PluginReport& report : reports) names.push_back(label_of(report.record));
  std::string message = "no plugin is named \"" + name + "\"";
  if (const std::string near = nearest(name, names); !near.empty()) {
    message += "; did you mean \"" + near + "\"?";
  }
  message += " Found:";
  for (const std::string& found : names) message += " " + found;
  return invalid_argument(names.empty() ? message + " none" : message);
}

Result<int> describe(const PluginsFlags& flags) {
  ENCORE_ASSIGN_OR_RETURN(const LoadedConfig loaded, flags.config.load());
  const std::unique_ptr<PluginRegistry> registry = make_registry(loaded.config);
  // Another plugin's failure is no reason not to describe this one.
  static_cast<void>(registry->discover());
  registry->load_all();
  const std::vector<PluginReport> reports = report_plugins(*registry, loaded);
  const auto found = std::find_if(reports.begin(), reports.end(), [&](const PluginReport& report) {
    return label_of(report.record) == flags.name;
  });
  if (found == reports.end()) return unknown_plugin(flags.name, reports);
  if (flags.json) {
    print_json(plugin_description_json(*found));
  } else {
    std::fputs(plugin_description_text(*found).c_str(), stdout);
  }
  return found->record.state == PluginState::kRejected ? kExitFailure : kExitOk;
}

void run_as(CLI::App& verb, VerbAction& action, const std::shared_ptr<PluginsFlags>& flags,
            Result<int> (*act)(const PluginsFlags&)) {
  flags->config.declare(verb, ConfigFlags::File::kOptional);
  verb.add_flag("--json", flags->json, "Print JSON");
  verb.callback([flags, act, &action] {
    action = [flags, act] {
      const Result<int> result = act(*flags);
      return result.ok() ? *result : report_error(result.status());
    };
  });
}

}  // namespace

void declare_plugins(CLI::App& app, VerbAction& action) {
  CLI::App* plugins = app.add_subcommand("plugins", "Backend plugins: list them, describe one");
  plugins->require_subcommand(1);
  CLI::App* list_verb =
      plugins->add_subcommand("list", "List the plugins found, rejected ones and why");
  list_verb->footer(
      "Exit codes: 0 ok, also if a plugin is unavailable here or one from a folder is rejected;\n"
      "1 or 2 if one that plugins.load requires is rejected; 2 wrong configuration.");
  run_as(*list_verb, action, std::make_shared<PluginsFlags>(), list);

  auto flags = std::make_shared<PluginsFlags>();
  CLI::App* describe_verb = plugins->add_subcommand(
      "describe", "One plugin: identity, devices, options, extensions, variants");
  describe_verb->add_option("name", flags->name, "The backend's name, as in `encore plugins list`")
      ->option_text("NAME")
      ->required();
  describe_verb->footer("Exit codes: 0 ok, 1 the plugin is rejected, 2 no plugin of that name.");
  run_as(*describe_verb, action, flags, describe);
}

}  // namespace encore
