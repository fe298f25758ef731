// Loads one backend plugin in stages, each with its own error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "encore/backend.h"
#include "encore/loader/load_failure.h"
#include "encore/sdk/log_level.h"
#include "encore/status.h"

namespace encore {

// What the host tells plugins about itself, and how it has them tried out.
struct HostInfo {
  std::string version;
  // Receives the plugins' lines and warnings about plugins; any thread; may be empty. The one given
  // last serves all plugins of the process.
  std::function<void(sdk::LogLevel, std::string_view)> log;
  // The program that tries a plugin out; empty: find_probe_program().
  std::string probe_program = {};
  int64_t probe_timeout_ms = 30'000;
  // Where good verdicts of that program are kept; empty: nowhere. See default_verdict_folder().
  std::string verdict_folder = {};
};

struct PluginLoadOptions {
  // 64 hexadecimal digits that the file's SHA-256 must be; empty: any.
  std::string sha256 = {};
  // Tries the plugin out in a child process first. Without, a plugin that crashes, hangs or exits
  // takes this process with it.
  bool probe = true;
  // Options for init() in that child beside the schema's defaults: a variant that is forced.
  std::vector<std::pair<std::string, std::string>> probe_options = {};
};

struct AbiVersion {
  uint32_t major = 0;
  uint32_t minor = 0;
};

// Where the answer of the stage "probe" came from.
enum class ProbeVerdict : int32_t {
  kNotAsked = 0,  // PluginLoadOptions::probe is false
  kRemembered = 1,
  kFresh = 2,
};

struct LoadedPlugin {
  std::string name;          // the backend's
  std::string path;          // as it was asked for
  std::string real_path;     // without symbolic links: what was checked and is mapped
  AbiVersion abi;            // the plugin's
  AbiVersion effective_abi;  // what host and plugin both know
  std::vector<std::string> extensions = {};  // names of those that it offers and this host knows
  ProbeVerdict verdict = ProbeVerdict::kNotAsked;
  std::unique_ptr<Backend> backend;
};

// Loads the plugin and checks what it says of itself; does not call init() in this process. The
// library stays mapped until the process ends, whatever happens; destroying `backend` shuts it
// down. Loading the same file twice gives two views of one backend: use PluginRegistry.
// Errors: the stage, path and cause in the message, and in `*failure` unless null. The status code
// is kNotFound (path, dependencies), kDataLoss (checksum, ELF), kUnavailable (load),
// kFailedPrecondition (permissions, negotiation), kDeadlineExceeded or kInternal (probe), or what
// the plugin itself reported.
Result<LoadedPlugin> load_plugin(const std::string& path, const HostInfo& host,
                                 LoadFailure* failure = nullptr,
                                 const PluginLoadOptions& options = {});

// encore-plugin-probe in libexec/encore beside the folder of the running program, or beside a
// folder above that (as in a build tree). Empty if it is in none.
std::string find_probe_program();

// $XDG_CACHE_HOME/encore, else ~/.cache/encore; empty if neither is an absolute path.
std::string default_verdict_folder();

}  // namespace encore
