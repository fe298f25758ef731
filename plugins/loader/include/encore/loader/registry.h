// The backends of a process, by name: where plugins are looked for, and which of them is which.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/config.h"
#include "encore/loader/cpu_isa.h"
#include "encore/loader/load_failure.h"
#include "encore/loader/manifest.h"
#include "encore/loader/plugin_loader.h"
#include "encore/loader/variants.h"
#include "encore/status.h"

namespace encore {

// <folder of the running program>/../lib/encore/plugins; empty if the system does not say.
std::string installed_plugin_dir();

enum class PluginState {
  kFound,        // named by a manifest or by plugins.load; not loaded yet
  kLoaded,       // loaded, and usable here
  kUnavailable,  // loaded, and the machine lacks something that it needs
  kRejected,     // `failure` says why
};

std::string_view plugin_state_name(PluginState state);

// Everything known of one plugin. Of one that is not loaded, what its manifest says.
struct PluginRecord {
  std::string name;  // the backend's; empty if nothing said it: a library that failed to load
  std::string vendor;
  std::string version;
  std::string build_id;                 // loaded only
  AbiVersion abi;                       // the plugin's; 0.0 if unknown
  AbiVersion effective_abi;             // loaded only: what host and plugin both know
  std::vector<std::string> extensions;  // loaded only: offered, and known to this host
  ProbeVerdict probe_verdict = ProbeVerdict::kNotAsked;  // loaded only
  PluginState state = PluginState::kFound;
  std::string reason;                  // of kUnavailable: the plugin's own words
  std::optional<LoadFailure> failure;  // of kRejected

  std::string source;     // what led to it: "plugins.load[0]", "plugins.dirs[1]", "installed"
  std::string manifest;   // absolute; empty for a library named directly
  std::string path;       // of the library, as found; empty while no variant is chosen
  std::string real_path;  // the same with symbolic links followed; empty if that fails
  std::vector<std::string> aliases;      // other paths that led to the same file
  std::string variant;                   // the chosen one's name; empty without variants
  std::string variant_option;            // backend option that forces a variant; empty without
  std::vector<VariantVerdict> variants;  // all, the chosen one included; empty without variants
  std::string conformance;               // what the manifest claims

  Backend* backend = nullptr;  // kLoaded and kUnavailable; the registry owns it
};

// A folder that was searched for manifests.
struct SearchedFolder {
  std::string source;  // "plugins.dirs[0]", "installed"
  std::string path;
  bool exists = false;
  int32_t num_manifests = 0;
  std::string skipped;  // why nothing was taken from it; empty if it was read
  // Files in it that look like plugins and that none of its manifests names: they are left alone.
  std::vector<std::string> stray_libraries;
};

class PluginSearch;  // what discover() collects

// Finds plugins in this order: `plugins.load` (libraries or manifests), then the manifests in
// `plugins.dirs`, then those in the installed folder. Nothing else is looked at: never the working
// directory, $HOME, or a library that no manifest names.
//
// Two names for one file are one plugin. Two plugins of one name are an error that names both,
// except that one from plugins.load takes the place of a manifest's, with a warning. A plugin that
// fails is never replaced by another; the others still load.
//
// One thread; outlives everything made from its backends, which it shuts down at its end.
class PluginRegistry {
 public:
  // Paths in `plugins` are absolute: the configuration resolves them against its file. The options
  // of `wanted` choose the variant of the backend that it names, and of no other. `isa` outlives
  // the registry.
  PluginRegistry(HostInfo host, PluginsConfig plugins, BackendConfig wanted = {},
                 std::string installed_dir = installed_plugin_dir(), const CpuIsa& isa = cpu_isa());
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  // Loads all of `plugins.load` and reads the manifests; a second call does nothing. A plugin that
  // fails is logged and kept in entries().
  // Errors: the first failure in `plugins.load` that is not optional; all else is found as well.
  Status discover();

  // The backend of that name, loaded if need be; not initialised. Discovers first.
  // Errors: kNotFound if nothing of that name was found, listing what was, and what was rejected
  // and why; the failure of the plugin if it was rejected.
  Result<Backend*> find(std::string_view name);

  // Loads whatever was found and is not loaded, for lists: no entry stays kFound.
  void load_all();

  // In the order in which they were found. Valid until the next call that is not const.
  std::span<const PluginRecord> entries() const;

  // The folders searched, in order, existing or not.
  std::span<const SearchedFolder> searched() const;

 private:
  bool absorb(size_t index);
  void load(size_t index);
  Result<LoadedPlugin> load_described(size_t index, LoadFailure* failure);
  void accept(size_t index, LoadedPlugin plugin);

  HostInfo host_;
  PluginsConfig config_;
  BackendConfig wanted_;
  std::string installed_dir_;
  bool discovered_ = false;
  Status named_failure_;
  std::unique_ptr<PluginSearch> search_;
  std::vector<std::unique_ptr<Backend>> backends_;  // that the entries point to
};

}  // namespace encore
