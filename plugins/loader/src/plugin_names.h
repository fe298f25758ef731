// Which plugin has which name, and what speaks against one that has it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "encore/loader/load_failure.h"
#include "encore/loader/plugin_loader.h"
#include "encore/status.h"
#include "plugin_search.h"

namespace encore {

// A failure that the registry finds, as both.
Status registration_error(LoadCode code, const std::string& path, std::string message,
                          LoadFailure* failure);

// Of the plugins that manifests in folders describe, from `first` on, rejects those whose name is
// taken: by one of plugins.load, or by each other.
void settle_names(PluginSearch& search, size_t first);

// What speaks against a plugin that loaded: its manifest, its name, or another of that name.
// Errors: kFailedPrecondition with code kManifestStale, kNameForeign or kNameTaken.
Status find_fault(PluginSearch& search, size_t index, const LoadedPlugin& plugin,
                  LoadFailure* failure);

// kNotFound, listing what was found and rejected and where it was looked for.
Status nothing_named(PluginSearch& search, std::string_view name);

}  // namespace encore
