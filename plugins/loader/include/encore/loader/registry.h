// The backends of a process, by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/config.h"
#include "encore/loader/plugin_loader.h"
#include "encore/status.h"

namespace encore {

// <folder of the running program>/../lib/encore/plugins; empty if the system does not say.
std::string installed_plugin_dir();

// Finds plugins in this order: `plugins.load`, `plugins.dirs`, the installed folder. The last two
// are asked for the file encore_backend_<name>.so when that name is wanted, and for nothing else;
// the working directory never. The first file found decides: if it fails to load, that is the
// answer, and no other file or backend takes its place.
// One thread; outlives everything made from its backends, which it shuts down at its end.
class PluginRegistry {
 public:
  // Paths in `config` are absolute: the configuration resolves them against its file.
  PluginRegistry(HostInfo host, PluginsConfig config,
                 std::string installed_dir = installed_plugin_dir());

  // Loads all of `plugins.load`. An optional one that fails is logged and kept in failures().
  // Errors: the first failure of one that is not optional.
  Status load_configured();

  // Loads one plugin. A path to a file already loaded, under whatever name, gives that plugin.
  // Errors: as load_plugin(); kFailedPrecondition naming both files if the backend's name is taken.
  Result<LoadedPlugin*> load(const std::string& path);

  // The backend of that name, loaded if need be; not initialised.
  // Errors: what was tried, what is loaded and what failed, with reasons.
  Result<Backend*> find(std::string_view name);

  std::span<const std::unique_ptr<LoadedPlugin>> plugins() const { return plugins_; }
  std::span<const LoadFailure> failures() const { return failures_; }

 private:
  struct FileId {
    uint64_t device = 0;
    uint64_t inode = 0;
  };

  LoadedPlugin* find_loaded(std::string_view name) const;
  Status explain(std::string_view name, const std::vector<std::string>& tried) const;
  void remember(const LoadFailure& failure);

  HostInfo host_;
  PluginsConfig config_;
  std::string installed_dir_;
  std::vector<std::unique_ptr<LoadedPlugin>> plugins_;
  std::vector<FileId> files_;  // of plugins_, by index
  std::vector<LoadFailure> failures_;
};

}  // namespace encore
