#include "plugin_under_test.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "encore/loader/cpu_isa.h"
#include "encore/loader/manifest.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "encore/loader/variants.h"

namespace encore::testing {
namespace {

[[noreturn]] void give_up(const std::string& message) {
  std::fprintf(stderr, "the plugin under test cannot be used: %s\n", message.c_str());
  std::exit(2);
}

// The library of the variant called `variant`, or of the best that this machine runs if empty.
std::string library_of(const std::string& name, const std::string& variant) {
  const auto manifest =
      read_manifest(std::string(ENCORE_PLUGIN_FOLDER "/").append(name).append(kManifestSuffix));
  if (!manifest.ok()) give_up(manifest.status().to_string());
  const auto verdicts = judge_variants(*manifest, cpu_isa());
  if (!verdicts.ok()) give_up(verdicts.status().to_string());
  for (const VariantVerdict& verdict : *verdicts) {
    const bool usable = verdict.state == VariantState::kUntried;
    if (variant.empty() ? !usable : verdict.name != variant) continue;
    if (!usable) give_up(verdict.name + ": " + verdict.reason);
    return verdict.library;
  }
  give_up("there is no variant '" + variant + "' of '" + name + "' for this machine");
}

std::string library_of(const std::string& plugin) {
  if (plugin.find('/') != std::string::npos) return plugin;
  const size_t colon = plugin.find(':');
  if (colon == std::string::npos) return library_of(plugin, "");
  return library_of(plugin.substr(0, colon), plugin.substr(colon + 1));
}

std::unique_ptr<Backend> load() {
  PluginArguments& arguments = plugin_arguments();
  PluginLoadOptions in_this_process;  // whose crash is a failed test
  in_this_process.probe = false;
  auto plugin = load_plugin(library_of(arguments.plugin), {"test", {}}, nullptr, in_this_process);
  if (!plugin.ok()) give_up(plugin.status().to_string());
  std::unique_ptr<Backend> backend = std::move(plugin->backend);
  const ProbeResult probe = backend->probe();
  if (!probe.usable) give_up(probe.reason);
  auto options = check_options(backend->option_schema(), arguments.options);
  if (!options.ok()) give_up(options.status().to_string());
  const Status initialised = backend->init(*options);
  if (!initialised.ok()) give_up(initialised.to_string());
  return backend;
}

}  // namespace

PluginArguments& plugin_arguments() {
  static PluginArguments arguments;
  return arguments;
}

const char* value_of(std::string_view argument, std::string_view flag) {
  return argument.starts_with(flag) ? argument.data() + flag.size() : nullptr;
}

bool parse_plugin_argument(std::string_view argument) {
  PluginArguments& arguments = plugin_arguments();
  if (const char* path = value_of(argument, "--plugin=")) {
    arguments.plugin = path;
  } else if (const char* option = value_of(argument, "--option=")) {
    const char* equals = std::strchr(option, '=');
    if (equals == nullptr) give_up("--option wants key=value");
    arguments.options.emplace_back(std::string(option, equals), equals + 1);
  } else if (const char* tolerance = value_of(argument, "--logit-tolerance=")) {
    arguments.logit_tolerance = std::strtof(tolerance, nullptr);
  } else if (const char* reference = value_of(argument, "--reference-tolerance=")) {
    arguments.reference_tolerance = std::strtof(reference, nullptr);
  } else if (const char* ranks = value_of(argument, "--ranks=")) {
    arguments.ranks = std::atoi(ranks);
  } else if (const char* device = value_of(argument, "--device=")) {
    arguments.device = std::atoi(device);
  } else {
    return false;
  }
  return true;
}

Backend& backend_under_test() {
  // Never destroyed: models, made from it, are kept to the end too.
  static Backend* backend = load().release();
  return *backend;
}

}  // namespace encore::testing
