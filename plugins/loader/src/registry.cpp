#include "encore/loader/registry.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "plugin_log.h"
#include "plugin_names.h"
#include "plugin_search.h"

namespace encore {
namespace {

namespace fs = std::filesystem;

std::string real_path_of(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? std::string() : real.string();
}

std::string value_of(const OptionValues& options, std::string_view key) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [key](const auto& option) { return option.first == key; });
  return found == options.end() ? std::string() : found->second;
}

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
      plugin_log(sdk::LogLevel::kWarn,
                 "optional " + origin.error.message() + " (the run goes on without it)");
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
    const Status& error = search_->origins()[i].error;
    if (!error.ok()) plugin_log(sdk::LogLevel::kWarn, error.message());
  }
  settle_names(*search_, first);
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

Result<Backend*> PluginRegistry::find(std::string_view name) {
  (void)discover();
  size_t found = PluginSearch::kNone;
  for (size_t i = 0; i < entries().size(); ++i) {
    if (name.empty() || entries()[i].name != name) continue;
    const bool live = entries()[i].state != PluginState::kRejected;
    if (live || found == PluginSearch::kNone) found = i;
    if (live) break;
  }
  if (found == PluginSearch::kNone) return nothing_named(*search_, name);
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
  Status error = plugin.ok() ? find_fault(*search_, index, *plugin, &failure) : plugin.status();
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
    return registration_error(
        LoadCode::kChecksum, record.manifest,
        "sha256 is that of a library, and this is a manifest; name the library itself", failure);
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

}  // namespace encore
