#include "open_backend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "encore/loader/options.h"
#include "text_table.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string absolute(const std::string& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  return error ? path : full.lexically_normal().string();
}

// The loader takes absolute paths only: what is relative here was written on the command line.
PluginsConfig absolute_paths(PluginsConfig plugins) {
  for (PluginLoad& load : plugins.load) load.path = absolute(load.path);
  for (std::string& folder : plugins.dirs) folder = absolute(folder);
  return plugins;
}

void log_plugin_line(sdk::LogLevel level, std::string_view message) {
  switch (level) {
    case sdk::LogLevel::kError:
      spdlog::error("{}", message);
      return;
    case sdk::LogLevel::kWarn:
      spdlog::warn("{}", message);
      return;
    case sdk::LogLevel::kInfo:
      spdlog::info("{}", message);
      return;
    default:
      spdlog::debug("{}", message);
  }
}

std::string origin_or_key(const LoadedConfig& loaded, const std::string& key) {
  const std::string origin = loaded.origin(key);
  return origin == "default" ? key : origin;
}

// Whether it was an option that asked for what the plugin cannot give.
bool is_wrong_variant(const PluginRecord& record) {
  return record.failure && (record.failure->code == LoadCode::kVariantUnknown ||
                            record.failure->code == LoadCode::kVariantUnsupported);
}

// The configured backend. What the configuration asks for and nothing here can give is the
// configuration's error, and says where it was written.
Result<Backend*> find_backend(PluginRegistry& registry, const LoadedConfig& loaded) {
  const std::string& name = loaded.config.backend.name;
  Result<Backend*> backend = registry.find(name);
  if (backend.ok()) return backend;
  const std::string& message = backend.status().message();
  bool known = false;
  for (const PluginRecord& record : registry.entries()) {
    if (record.name != name) continue;
    // A library that the machine lacks is put right there, as a device that it lacks is.
    known |= !record.failure || record.failure->code != LoadCode::kDependencyMissing;
    if (!is_wrong_variant(record)) continue;
    const std::string option = "backend.options." + record.variant_option;
    return invalid_argument(origin_or_key(loaded, option) + ": backend.options: " + message);
  }
  return Status(known ? backend.status().code() : StatusCode::kInvalidArgument,
                origin_or_key(loaded, "backend.name") + ": " + message);
}

std::string range_text(const OptionSchema& option) {
  if (option.minimum > option.maximum) return "";
  const int digits = option.type == OptionType::kInt ? 0 : 3;
  return " from " + format_number(option.minimum, digits) + " to " +
         format_number(option.maximum, digits);
}

}  // namespace

Result<OpenBackend> open_backend(const LoadedConfig& loaded) {
  OpenBackend open;
  open.registry = make_registry(loaded.config);
  ENCORE_RETURN_IF_ERROR(open.registry->discover());
  ENCORE_ASSIGN_OR_RETURN(open.backend, usable_backend(*open.registry, loaded));
  const std::string& name = loaded.config.backend.name;
  ENCORE_RETURN_IF_ERROR(init_backend(loaded, name, *open.backend));
  ENCORE_RETURN_IF_ERROR(check_device(*open.backend, loaded));
  ENCORE_ASSIGN_OR_RETURN(const DeviceInfo device,
                          open.backend->device_info(loaded.config.backend.device));
  spdlog::info("backend: {} {} on {} ({})", name, open.backend->identity().version, device.name,
               device.architecture);
  return open;
}

std::unique_ptr<PluginRegistry> make_registry(const Config& config) {
  HostInfo host;
  host.version = ENCORE_VERSION;
  host.log = log_plugin_line;
  host.probe_timeout_ms = int64_t{1000} * config.plugins.probe_timeout_s;
  host.verdict_folder = default_verdict_folder();
  return std::make_unique<PluginRegistry>(std::move(host), absolute_paths(config.plugins),
                                          config.backend);
}

Result<Backend*> usable_backend(PluginRegistry& registry, const LoadedConfig& loaded) {
  ENCORE_ASSIGN_OR_RETURN(Backend * backend, find_backend(registry, loaded));
  const ProbeResult probe = backend->probe();
  if (probe.usable) return backend;
  // The configuration asks for what this machine lacks: nothing takes its place.
  return invalid_argument(origin_or_key(loaded, "backend.name") + ": backend \"" +
                          loaded.config.backend.name + "\" is unavailable: " + probe.reason);
}

Status init_backend(const LoadedConfig& loaded, const std::string& name, Backend& backend) {
  LoadedConfig own = loaded;
  if (name != loaded.config.backend.name) own.config.backend.options.clear();
  ENCORE_ASSIGN_OR_RETURN(const OptionValues options,
                          checked_options(own, backend.option_schema()));
  return backend.init(options);
}

Status check_device(const Backend& backend, const LoadedConfig& loaded) {
  const int32_t count = backend.device_count();
  const int32_t device = loaded.config.backend.device;
  if (device < count) return {};
  return invalid_argument(origin_or_key(loaded, "backend.device") + ": backend.device is " +
                          std::to_string(device) + "; backend \"" + loaded.config.backend.name +
                          "\" has " + std::to_string(count) + " devices, counted from 0");
}

Result<OptionValues> checked_options(const LoadedConfig& loaded,
                                     const std::vector<OptionSchema>& schema) {
  const OptionValues& given = loaded.config.backend.options;
  // One by one first, so that an error is known to belong to one place.
  for (const auto& option : given) {
    const Result<OptionValues> alone = check_options(schema, std::span(&option, 1));
    if (alone.ok()) continue;
    const std::string origin = loaded.origin("backend.options." + option.first);
    return invalid_argument(origin + ": backend.options: " + alone.status().message());
  }
  return check_options(schema, given);
}

std::string describe_option(const OptionSchema& option) {
  const std::string words = joined(option.choices);
  const std::string or_words = words.empty() ? "" : ", or " + words;
  switch (option.type) {
    case OptionType::kInt:
      return "a whole number" + range_text(option) + or_words;
    case OptionType::kFloat:
      return "a number" + range_text(option) + or_words;
    case OptionType::kBool:
      return "true or false";
    case OptionType::kEnum:
      return "one of " + words;
    case OptionType::kString:
      return "text";
  }
  return "unknown";
}

}  // namespace encore
