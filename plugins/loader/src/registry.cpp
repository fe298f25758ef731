#include "encore/loader/registry.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/suggest.h"
#include "plugin_log.h"
#include "plugin_search.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

std::string real_path_of(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? std::string() : real.string();
}

std::string abi_text(AbiVersion abi) {
  return std::to_string(abi.major) + "." + std::to_string(abi.minor);
}

// Where a plugin is, for messages: its manifest, or its library.
const std::string& place(const PluginRecord& record) {
  return record.manifest.empty() ? record.path : record.manifest;
}

Status fault(LoadCode code, const std::string& path, std::string message, LoadFailure* failure) {
  *failure = {code, path, std::move(message)};
  return failed_precondition("plugin " + path + ": " +
                             std::string(load_stage_name(failure->stage())) + ": " +
                             failure->message);
}

// The first of the manifest's values that the library belies, with both; empty if there is none.
std::string stale_value(const Manifest& manifest, const LoadedPlugin& plugin) {
  struct Value {
    const char* key;
    std::string in_manifest;
    std::string in_library;
  };
  const BackendIdentity identity = plugin.backend->identity();
  const std::array<Value, 4> values = {
      {{"name", manifest.name, identity.name},
       {"vendor", manifest.vendor, identity.vendor},
       {"version", manifest.version, identity.version},
       {"abi", abi_text({manifest.abi_major, manifest.abi_minor}), abi_text(plugin.abi)}}};
  for (const Value& value : values) {
    if (value.in_manifest == value.in_library) continue;
    return std::string("it says ") + value.key + " \"" + value.in_manifest + "\", the library " +
           plugin.path + " says \"" + value.in_library +
           "\"; install manifest and library of one build";
  }
  return {};
}

std::string value_of(const OptionValues& options, std::string_view key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [key](const auto& option) { return option.first == key; });
  return found == options.end() ? std::string() : found->second;
}

void warn(const std::string& line) { plugin_log(sdk::LogLevel::kWarn, line); }

}  // namespace

std::string installed_plugin_dir() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (program.parent_path().parent_path() / "lib/encore/plugins").string();
}

std::string_view plugin_state_name(PluginState state) {
  switch (state) {
    case PluginState::kFound:
      return "found";
    case PluginState::kLoaded:
      return "loaded";
    case PluginState::kUnavailable:
      return "unavailable";
    case PluginState::kRejected:
      return "rejected";
  }
  return "unknown";
}

PluginRegistry::PluginRegistry(HostInfo host, PluginsConfig plugins, BackendConfig wanted,
                               std::string installed_dir, const CpuIsa& isa)
    : host_(std::move(host)),
      config_(std::move(plugins)),
      wanted_(std::move(wanted)),
      installed_dir_(std::move(installed_dir)),
      search_(std::make_unique<PluginSearch>(isa)) {
  (void)persistent_host_info(host_);  // lines about plugins go to this host's log from now on
}

PluginRegistry::~PluginRegistry() = default;

std::span<const PluginRecord> PluginRegistry::entries() const { return search_->records(); }

std::span<const SearchedFolder> PluginRegistry::searched() const { return search_->folders(); }

Status PluginRegistry::discover() {
  if (discovered_) return named_failure_;
  discovered_ = true;
  for (size_t i = 0; i < config_.load.size(); ++i) {
    search_->add_named("plugins.load[" + std::to_string(i) + "]", config_.load[i]);
  }
  for (size_t i = 0; i < search_->records().size();) {
    if (!absorb(i)) load(i++);
  }
  for (size_t i = 0; i < search_->records().size(); ++i) {
    const PluginOrigin& origin = search_->origins()[i];
    if (origin.error.ok()) continue;
    if (origin.optional) {
      warn("optional " + origin.error.message() + " (the run goes on without it)");
    } else if (named_failure_.ok()) {
      named_failure_ = origin.error;
    }
  }
  const size_t first = search_->records().size();
  for (size_t i = 0; i < config_.dirs.size(); ++i) {
    search_->add_folder("plugins.dirs[" + std::to_string(i) + "]", config_.dirs[i]);
  }
  if (!installed_dir_.empty()) search_->add_folder("installed", installed_dir_);
  for (size_t i = first; i < search_->records().size(); ++i) {
    if (!search_->origins()[i].error.ok()) warn(search_->origins()[i].error.message());
  }
  settle_names(first);
  return named_failure_;
}

// A library named beside a manifest that has chosen that very file is the same plugin.
bool PluginRegistry::absorb(size_t index) {
  const PluginRecord& record = search_->records()[index];
  const PluginOrigin& origin = search_->origins()[index];
  if (!record.manifest.empty() || !origin.sha256.empty()) return false;
  const std::string real = real_path_of(record.path);
  for (size_t i = 0; i < index && !real.empty(); ++i) {
    if (search_->records()[i].backend == nullptr || search_->records()[i].real_path != real)
      continue;
    search_->merge(index, i);
    return true;
  }
  return false;
}

// Of the plugins that manifests in folders describe, from `first` on, rejects those whose name is
// taken: by one of plugins.load, or by each other.
void PluginRegistry::settle_names(size_t first) {
  const std::vector<PluginRecord>& records = search_->records();
  const auto live = [&](size_t i) { return records[i].state != PluginState::kRejected; };
  for (size_t i = first; i < records.size(); ++i) {
    if (records[i].name.empty() || !live(i)) continue;
    LoadFailure failure;
    for (size_t named = 0; named < first; ++named) {
      if (records[named].name != records[i].name || !live(i)) continue;
      if (!live(named) && search_->origins()[named].optional) continue;
      const Status error =
          fault(LoadCode::kNameTaken, place(records[i]),
                "backend '" + records[i].name + "' comes from " + records[named].source + ", " +
                    place(records[named]) + ", which takes precedence",
                &failure);
      warn(error.message());
      search_->reject(i, failure, error);
    }
  }
  std::vector<std::pair<size_t, std::string>> twice;
  for (size_t i = first; i < records.size(); ++i) {
    if (!live(i)) continue;
    std::string others;
    for (size_t other = first; other < records.size(); ++other) {
      if (other == i || !live(other) || records[other].name != records[i].name) continue;
      others.append(others.empty() ? "" : " and ").append(place(records[other]));
    }
    if (!others.empty()) twice.emplace_back(i, others);
  }
  for (const auto& [index, others] : twice) {
    LoadFailure failure;
    const Status error =
        fault(LoadCode::kNameTaken, place(records[index]),
              "its backend is named '" + records[index].name + "', as is the one of " + others +
                  "; remove one, or name the one to use in plugins.load",
              &failure);
    search_->reject(index, failure, error);
  }
}

Result<Backend*> PluginRegistry::find(std::string_view name) {
  (void)discover();
  size_t found = PluginSearch::kNone;
  for (size_t i = 0; i < entries().size(); ++i) {
    if (name.empty() || entries()[i].name != name) continue;
    const bool live = entries()[i].state != PluginState::kRejected;
    if (live || found == PluginSearch::kNone) found = i;
    if (live) break;
  }
  if (found == PluginSearch::kNone) return explain(name);
  load(found);
  if (Backend* backend = entries()[found].backend) return backend;
  return search_->origins()[found].error;
}

void PluginRegistry::load_all() {
  (void)discover();
  for (size_t i = 0; i < entries().size(); ++i) load(i);
}

void PluginRegistry::load(size_t index) {
  const PluginRecord& record = search_->records()[index];
  if (record.state != PluginState::kFound) return;
  LoadFailure failure;
  Result<LoadedPlugin> plugin =
      record.manifest.empty()
          ? load_plugin(record.path, host_, &failure, {.sha256 = search_->origins()[index].sha256})
          : load_described(index, &failure);
  Status error = plugin.ok() ? find_fault(index, *plugin, &failure) : plugin.status();
  if (!error.ok()) {
    search_->reject(index, std::move(failure), std::move(error));
    return;
  }
  accept(index, std::move(plugin).value());
}

Result<LoadedPlugin> PluginRegistry::load_described(size_t index, LoadFailure* failure) {
  PluginRecord& record = search_->records()[index];
  PluginOrigin& origin = search_->origins()[index];
  if (!origin.sha256.empty()) {
    return fault(LoadCode::kChecksum, record.manifest,
                 "sha256 is that of a library, and this is a manifest; name the library itself",
                 failure);
  }
  const std::string& option = origin.manifest.variant_option;
  const bool wanted = !option.empty() && record.name == wanted_.name;
  const std::string forced = wanted ? value_of(wanted_.options, option) : std::string();
  PluginLoadOptions load_options;
  if (!forced.empty()) load_options.probe_options = {{option, forced}};
  const LoadVariant load_one = [&](const std::string& library, LoadFailure* why) {
    return load_plugin(library, host_, why, load_options);
  };
  Result<LoadedPlugin> plugin =
      load_variant(origin.manifest, forced, load_one, origin.verdicts, failure);
  for (size_t i = 0; i < record.variants.size(); ++i) record.variants[i] = origin.verdicts[i];
  for (const VariantVerdict& verdict : origin.verdicts) {
    if (verdict.state == VariantState::kChosen) record.variant = verdict.name;
  }
  return plugin;
}

// What speaks against a plugin that loaded: the manifest, its name, or another of that name.
Status PluginRegistry::find_fault(size_t index, const LoadedPlugin& plugin,
                                  LoadFailure* failure) const {
  const PluginRecord& record = search_->records()[index];
  const BackendIdentity identity = plugin.backend->identity();
  if (!record.manifest.empty()) {
    std::string stale = stale_value(search_->origins()[index].manifest, plugin);
    if (!stale.empty()) {
      return fault(LoadCode::kManifestStale, record.manifest, std::move(stale), failure);
    }
  }
  std::string problem = name_problem(identity.name, identity.vendor);
  if (!problem.empty()) {
    return fault(LoadCode::kNameForeign, place(record), std::move(problem), failure);
  }
  for (size_t i = 0; i < search_->records().size(); ++i) {
    const PluginRecord& other = search_->records()[i];
    if (i == index || other.backend == nullptr || other.name != identity.name) continue;
    return fault(LoadCode::kNameTaken, place(record),
                 "its backend is named '" + identity.name + "', as is the one of " + place(other) +
                     "; load only one of the two",
                 failure);
  }
  return {};
}

void PluginRegistry::accept(size_t index, LoadedPlugin plugin) {
  PluginRecord& record = search_->records()[index];
  const BackendIdentity identity = plugin.backend->identity();
  record.name = identity.name;
  record.vendor = identity.vendor;
  record.version = identity.version;
  record.build_id = identity.build_id;
  record.abi = plugin.abi;
  record.effective_abi = plugin.effective_abi;
  record.extensions = std::move(plugin.extensions);
  record.probe_verdict = plugin.verdict;
  record.path = plugin.path;
  record.real_path = plugin.real_path;
  ProbeResult probe = plugin.backend->probe();
  record.state = probe.usable ? PluginState::kLoaded : PluginState::kUnavailable;
  if (!probe.usable) record.reason = std::move(probe.reason);
  record.backend = backends_.emplace_back(std::move(plugin.backend)).get();
}

Status PluginRegistry::explain(std::string_view name) const {
  std::string message = "no plugin offers backend '" + std::string(name) + "'";
  std::vector<std::string> names;
  for (const PluginRecord& record : entries()) {
    if (record.state != PluginState::kRejected) names.push_back(record.name);
  }
  if (const std::string near = nearest(name, names); !near.empty()) {
    message += "; did you mean '" + near + "'?";
  }
  for (const PluginRecord& record : entries()) {
    if (record.state == PluginState::kRejected) continue;
    message += "\n  found: '" + record.name + "' from " + place(record);
  }
  for (const PluginRecord& record : entries()) {
    if (!record.failure) continue;
    message += "\n  rejected: " + record.failure->path + ": " +
               std::string(load_stage_name(record.failure->stage())) + ": " +
               record.failure->message;
  }
  for (const SearchedFolder& folder : searched()) {
    message += "\n  searched: " + folder.path + " (" + folder.source + "): " +
               (folder.skipped.empty() ? std::to_string(folder.num_manifests) + " manifests"
                                       : folder.skipped);
    for (const std::string& library : folder.stray_libraries) {
      message += "\n  not looked at: " + library + ", which no manifest there names";
    }
  }
  message +=
      "\n  name the plugin's library or manifest in plugins.load, or the folder of its "
      "manifest in plugins.dirs";
  return not_found(std::move(message));
}

}  // namespace encore
