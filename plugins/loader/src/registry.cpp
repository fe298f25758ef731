#include "encore/loader/registry.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "plugin_log.h"

namespace encore {
namespace {

bool is_legal_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

std::string installed_plugin_dir() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (program.parent_path().parent_path() / "lib/encore/plugins").string();
}

PluginRegistry::PluginRegistry(HostInfo host, PluginsConfig config, std::string installed_dir)
    : host_(std::move(host)),
      config_(std::move(config)),
      installed_dir_(std::move(installed_dir)) {}

Status PluginRegistry::load_configured() {
  for (const PluginLoad& wanted : config_.load) {
    const Result<LoadedPlugin*> plugin = load(wanted.path);
    if (plugin.ok()) continue;
    if (!wanted.optional) return plugin.status();
    plugin_log(sdk::LogLevel::kWarn,
               "optional " + plugin.status().message() + " (the run goes on without it)");
  }
  return {};
}

Result<LoadedPlugin*> PluginRegistry::load(const std::string& path) {
  struct stat status = {};
  FileId file;
  if (path.starts_with('/') && ::stat(path.c_str(), &status) == 0) {
    file = {.device = status.st_dev, .inode = status.st_ino};
    for (size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].device == file.device && files_[i].inode == file.inode) {
        return plugins_[i].get();
      }
    }
  }
  LoadFailure failure;
  Result<LoadedPlugin> loaded = load_plugin(path, host_, &failure);
  if (!loaded.ok()) {
    remember(failure);
    return loaded.status();
  }
  if (const LoadedPlugin* taken = find_loaded(loaded->name)) {
    failure = {LoadCode::kNameTaken, path,
               "its backend is named '" + loaded->name + "', as is the one of " + taken->path +
                   "; load only one of the two"};
    remember(failure);
    return failed_precondition("plugin " + path + ": registration: " + failure.message);
  }
  plugins_.push_back(std::make_unique<LoadedPlugin>(std::move(loaded).value()));
  files_.push_back(file);
  return plugins_.back().get();
}

Result<Backend*> PluginRegistry::find(std::string_view name) {
  if (LoadedPlugin* plugin = find_loaded(name)) return plugin->backend.get();
  if (!is_legal_name(name)) {
    return invalid_argument("backend name '" + std::string(name) +
                            "' is not 1 to 64 of the characters a-z 0-9 . _ -");
  }
  std::vector<std::string> folders = config_.dirs;
  if (!installed_dir_.empty()) folders.push_back(installed_dir_);
  std::vector<std::string> tried;
  for (const std::string& folder : folders) {
    const std::string path = folder + "/encore_backend_" + std::string(name) + ".so";
    struct stat status = {};
    if (folder.starts_with('/') && ::stat(path.c_str(), &status) != 0) {
      tried.push_back(path);
      continue;
    }
    ENCORE_ASSIGN_OR_RETURN(LoadedPlugin * plugin, load(path));
    if (plugin->name == name) return plugin->backend.get();
    return failed_precondition("plugin " + path + " was loaded for backend '" + std::string(name) +
                               "', but its backend is named '" + plugin->name +
                               "'; rename the file or ask for that name");
  }
  return explain(name, tried);
}

LoadedPlugin* PluginRegistry::find_loaded(std::string_view name) const {
  const auto found = std::find_if(plugins_.begin(), plugins_.end(),
                                  [&](const auto& plugin) { return plugin->name == name; });
  return found == plugins_.end() ? nullptr : found->get();
}

Status PluginRegistry::explain(std::string_view name, const std::vector<std::string>& tried) const {
  std::string message = "no plugin offers backend '" + std::string(name) + "'";
  for (const std::string& path : tried) message += "\n  not there: " + path;
  for (const auto& plugin : plugins_) {
    message += "\n  loaded: '" + plugin->name + "' from " + plugin->path;
  }
  for (const LoadFailure& failure : failures_) {
    message += "\n  failed: " + failure.path + ": " + std::string(load_stage_name(failure.stage())) +
               ": " + failure.message;
  }
  message += "\n  name the plugin's file in plugins.load or its folder in plugins.dirs";
  return not_found(std::move(message));
}

void PluginRegistry::remember(const LoadFailure& failure) {
  std::erase_if(failures_,
                [&](const LoadFailure& earlier) { return earlier.path == failure.path; });
  failures_.push_back(failure);
}

}  // namespace encore
