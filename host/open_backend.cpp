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

constexpr std::string_view kFilePrefix = "encore_backend_";
constexpr std::string_view kFileSuffix = ".so";

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

Result<Backend*> find_backend(PluginRegistry& registry, const LoadedConfig& loaded) {
  const std::string& name = loaded.config.backend.name;
  Result<Backend*> backend = registry.find(name);
  if (backend.ok() || backend.status().code() != StatusCode::kNotFound) return backend;
  const std::vector<std::string> on_disk = backend_names_on_disk(loaded.config);
  if (std::find(on_disk.begin(), on_disk.end(), name) != on_disk.end()) return backend;
  const std::string origin = loaded.origin("backend.name");
  std::string message = origin == "default" ? "backend.name" : origin;
  message += ": " + backend.status().message() + "; backends found: ";
  return invalid_argument(message + (on_disk.empty() ? "none" : joined(on_disk)));
}

Status check_device(const Backend& backend, const LoadedConfig& loaded) {
  const int32_t count = backend.device_count();
  const int32_t device = loaded.config.backend.device;
  if (device < count) return {};
  const std::string origin = loaded.origin("backend.device");
  return invalid_argument((origin == "default" ? "backend.device" : origin) +
                          ": backend.device is " + std::to_string(device) + "; backend \"" +
                          loaded.config.backend.name + "\" has " + std::to_string(count) +
                          " devices, counted from 0");
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
  ENCORE_RETURN_IF_ERROR(open.registry->load_configured());
  ENCORE_ASSIGN_OR_RETURN(open.backend, find_backend(*open.registry, loaded));
  const std::string& name = loaded.config.backend.name;
  const ProbeResult probe = open.backend->probe();
  if (!probe.usable) {
    // The configuration asks for what this machine lacks: nothing takes its place.
    const std::string origin = loaded.origin("backend.name");
    return invalid_argument((origin == "default" ? "backend.name" : origin) + ": backend \"" +
                            name + "\" is unavailable: " + probe.reason);
  }
  ENCORE_ASSIGN_OR_RETURN(const OptionValues options,
                          checked_options(loaded, open.backend->option_schema()));
  ENCORE_RETURN_IF_ERROR(open.backend->init(options));
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
  return std::make_unique<PluginRegistry>(std::move(host), absolute_paths(config.plugins));
}

std::vector<std::string> backend_names_on_disk(const Config& config) {
  std::vector<std::string> folders = absolute_paths(config.plugins).dirs;
  folders.push_back(installed_plugin_dir());
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with(kFilePrefix) || !file.ends_with(kFileSuffix)) continue;
      if (file.size() <= kFilePrefix.size() + kFileSuffix.size()) continue;
      names.push_back(
          file.substr(kFilePrefix.size(), file.size() - kFilePrefix.size() - kFileSuffix.size()));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
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
