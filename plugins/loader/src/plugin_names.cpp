#include "plugin_names.h"

#include <array>
#include <utility>
#include <vector>

#include "config/suggest.h"
#include "plugin_log.h"

namespace encore {
namespace {

// Where a plugin is, for messages: its manifest, or its library.
const std::string& place(const PluginRecord& record) {
  return record.manifest.empty() ? record.path : record.manifest;
}

std::string abi_text(AbiVersion abi) {
  return std::to_string(abi.major) + "." + std::to_string(abi.minor);
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

}  // namespace

Status registration_error(LoadCode code, const std::string& path, std::string message,
                          LoadFailure* failure) {
  *failure = {code, path, std::move(message)};
  return failed_precondition("plugin " + path + ": " +
                             std::string(load_stage_name(failure->stage())) + ": " +
                             failure->message);
}

void settle_names(PluginSearch& search, size_t first) {
  const std::vector<PluginRecord>& records = search.records();
  const auto live = [&](size_t i) { return records[i].state != PluginState::kRejected; };
  for (size_t i = first; i < records.size(); ++i) {
    if (records[i].name.empty() || !live(i)) continue;
    LoadFailure failure;
    for (size_t named = 0; named < first; ++named) {
      if (records[named].name != records[i].name || !live(i)) continue;
      if (!live(named) && search.origins()[named].optional) continue;
      const Status error = registration_error(
          LoadCode::kNameTaken, place(records[i]),
          "backend '" + records[i].name + "' comes from " + records[named].source + ", " +
              place(records[named]) + ", which takes precedence",
          &failure);
      plugin_log(sdk::LogLevel::kWarn, error.message());
      search.reject(i, failure, error);
    }
  }
  std::vector<std::pair<size_t, std::string>> twice;
  for (size_t i = first; i < records.size(); ++i) {
    if (!live(i)) continue;
    std::string others;
    for (size_t other = first; other < records.size(); ++other) {
      // A rejected one counts too: nothing takes the place of a plugin that fails.
      if (other == i || records[other].name != records[i].name) continue;
      others.append(others.empty() ? "" : " and ").append(place(records[other]));
    }
    if (!others.empty()) twice.emplace_back(i, others);
  }
  for (const auto& [index, others] : twice) {
    LoadFailure failure;
    const Status error =
        registration_error(LoadCode::kNameTaken, place(records[index]),
                           "its backend is named '" + records[index].name + "', as is the one of " +
                               others + "; remove one, or name the one to use in plugins.load",
                           &failure);
    plugin_log(sdk::LogLevel::kWarn, error.message());
    search.reject(index, failure, error);
  }
}

Status find_fault(PluginSearch& search, size_t index, const LoadedPlugin& plugin,
                  LoadFailure* failure) {
  const PluginRecord& record = search.records()[index];
  const BackendIdentity identity = plugin.backend->identity();
  if (!record.manifest.empty()) {
    std::string stale = stale_value(search.origins()[index].manifest, plugin);
    if (!stale.empty()) {
      return registration_error(LoadCode::kManifestStale, record.manifest, std::move(stale),
                                failure);
    }
  }
  std::string problem = name_problem(identity.name, identity.vendor);
  if (!problem.empty()) {
    return registration_error(LoadCode::kNameForeign, place(record), std::move(problem), failure);
  }
  for (size_t i = 0; i < search.records().size(); ++i) {
    const PluginRecord& other = search.records()[i];
    if (i == index || other.backend == nullptr || other.name != identity.name) continue;
    return registration_error(LoadCode::kNameTaken, place(record),
                              "its backend is named '" + identity.name + "', as is the one of " +
                                  place(other) + "; load only one of the two",
                              failure);
  }
  return {};
}

Status nothing_named(PluginSearch& search, std::string_view name) {
  std::string message = "no plugin offers backend '" + std::string(name) + "'";
  std::vector<std::string> names;
  for (const PluginRecord& record : search.records()) {
    if (record.state != PluginState::kRejected) names.push_back(record.name);
  }
  if (const std::string near = nearest(name, names); !near.empty()) {
    message += "; did you mean '" + near + "'?";
  }
  for (const PluginRecord& record : search.records()) {
    if (record.state == PluginState::kRejected) continue;
    message += "\n  found: '" + record.name + "' from " + place(record);
  }
  for (const PluginRecord& record : search.records()) {
    if (!record.failure) continue;
    message += "\n  rejected: " + record.failure->path + ": " +
               std::string(load_stage_name(record.failure->stage())) + ": " +
               record.failure->message;
  }
  for (const SearchedFolder& folder : search.folders()) {
    const std::string count = std::to_string(folder.num_manifests) +
                              (folder.num_manifests == 1 ? " manifest" : " manifests");
    message += "\n  searched: " + folder.path + " (" + folder.source +
               "): " + (folder.skipped.empty() ? count : folder.skipped);
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
