// The last steps of loading: mapping the library into this process and asking it what it offers.
#pragma once

#include <memory>
#include <string>

#include "encore/backend_abi.h"
#include "encore/loader/load_failure.h"
#include "encore/status.h"
#include "plugin_context.h"

namespace encore {

struct PluginEntry {
  encore_backend_entry_fn call = nullptr;
};

// Maps the library, which runs its static initialisers, and finds its entry function. It stays
// mapped for the life of the process.
// Errors: kUnavailable with the dynamic linker's own words; kFailedPrecondition if there is no
// entry function. `*code` says which.
Result<PluginEntry> open_plugin(const std::string& path, LoadCode* code);

// Calls the entry function and checks what it returns, the option schema included.
// Errors: what the plugin reported; kFailedPrecondition naming what was expected and found;
// kInternal if an exception left the plugin. `*code` says which.
Result<std::shared_ptr<const PluginContext>> enter_plugin(PluginEntry entry,
                                                          const encore_host_info* host,
                                                          LoadCode* code);

}  // namespace encore
