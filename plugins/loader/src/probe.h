// The stage "probe": the plugin is loaded, initialised, tested and ended in a child process, so
// that one that crashes, hangs or exits does so there.
#pragma once

#include <string>

#include "encore/loader/plugin_loader.h"
#include "encore/status.h"

namespace encore {

// A plugin that says it cannot be used on this machine passes.
// Errors: what the child could name (linker, negotiation, options), with that code; else how the
// child ended and what the plugin was doing: kInternal, or kDeadlineExceeded. kUnavailable if the
// child could not be started. `*code` says which.
Result<ProbeVerdict> probe_plugin(const std::string& real_path, const HostInfo& host,
                                  const PluginLoadOptions& options, LoadCode* code);

}  // namespace encore
