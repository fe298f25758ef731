// Loads one backend plugin in stages, each with its own error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "encore/backend.h"
#include "encore/sdk/log_level.h"
#include "encore/status.h"

namespace encore {

// In the order in which they happen. A failure says how far loading got.
enum class LoadStage : int32_t {
  kPath = 0,          // the path is absolute and names a regular file
  kElf = 1,           // a whole shared library for this machine
  kDependencies = 2,  // every library it needs, and those need, can be found
  kLoad = 3,          // the dynamic linker takes it: no undefined symbol
  kNegotiation = 4,   // an Encore plugin whose ABI this host speaks
  kRegistration = 5,  // its name is free
};

std::string_view load_stage_name(LoadStage stage);

struct LoadFailure {
  LoadStage stage = LoadStage::kPath;
  std::string path;
  std::string message;  // cause and remedy, without the path
};

// What the host tells plugins about itself.
struct HostInfo {
  std::string version;
  // Receives the plugins' lines and warnings about plugins; any thread; may be empty. The one given
  // last serves all plugins of the process.
  std::function<void(sdk::LogLevel, std::string_view)> log;
};

struct LoadedPlugin {
  std::string name;  // the backend's
  std::string path;
  std::unique_ptr<Backend> backend;
};

// Loads the plugin and checks what it says of itself; does not call init(). The library stays
// mapped until the process ends, whatever happens; destroying `backend` shuts it down. Loading the
// same file twice gives two views of one backend: use PluginRegistry.
// Errors: the failed stage, path and cause in the message, and in `*failure` unless null. The code
// is kNotFound (path, dependencies), kDataLoss (ELF), kUnavailable (load), kFailedPrecondition
// (negotiation), or what the plugin's entry function reported.
Result<LoadedPlugin> load_plugin(const std::string& path, const HostInfo& host,
                                 LoadFailure* failure = nullptr);

}  // namespace encore
