#include "encore/loader/plugin_loader.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "backend_proxy.h"
#include "dependencies.h"
#include "elf_file.h"
#include "in_process.h"
#include "path_check.h"
#include "permissions.h"
#include "plugin_context.h"
#include "plugin_log.h"
#include "probe.h"
#include "stage_error.h"

namespace encore {
namespace {

Result<LoadedPlugin> run_stages(const std::string& path, const HostInfo& host,
                                const PluginLoadOptions& options, LoadCode* code) {
  const encore_host_info* host_info = persistent_host_info(host);  // its log is used from now on
  ENCORE_RETURN_IF_ERROR(check_path(path, code));
  if (!options.sha256.empty()) {
    ENCORE_RETURN_IF_ERROR(check_checksum(path, options.sha256, code));
  }
  // From here on the path without links, so that what was checked is what is loaded.
  ENCORE_ASSIGN_OR_RETURN(std::string real_path, check_permissions(path, code));
  ENCORE_RETURN_IF_ERROR(read_elf(real_path, code).status());
  ENCORE_RETURN_IF_ERROR(check_dependencies(real_path, code));
  ProbeVerdict verdict = ProbeVerdict::kNotAsked;
  if (options.probe) {
    ENCORE_ASSIGN_OR_RETURN(verdict, probe_plugin(real_path, host, options, code));
  }
  ENCORE_ASSIGN_OR_RETURN(const PluginEntry entry, open_plugin(real_path, code));
  ENCORE_ASSIGN_OR_RETURN(std::shared_ptr<const PluginContext> context,
                          enter_plugin(entry, host_info, code));
  LoadedPlugin plugin;
  plugin.name = context->identity.name;
  plugin.path = path;
  plugin.real_path = std::move(real_path);
  plugin.verdict = verdict;
  plugin.abi = {.major = context->table.abi_major, .minor = context->table.abi_minor};
  plugin.effective_abi = {.major = plugin.abi.major,
                          .minor = std::min(plugin.abi.minor, ENCORE_ABI_MINOR)};
  plugin.extensions = context->extensions;
  plugin.backend = std::make_unique<BackendProxy>(std::move(context));
  return plugin;
}

}  // namespace

Result<LoadedPlugin> load_plugin(const std::string& path, const HostInfo& host,
                                 LoadFailure* failure, const PluginLoadOptions& options) {
  LoadCode code = LoadCode::kNone;
  Result<LoadedPlugin> plugin = [&]() -> Result<LoadedPlugin> {
    try {
      return run_stages(path, host, options, &code);
    } catch (const std::exception& exception) {  // from the standard library
      return stage_error(&code, LoadCode::kLinker, internal_error(exception.what()));
    }
  }();
  if (plugin.ok()) return plugin;
  const Status& cause = plugin.status();
  if (failure != nullptr) *failure = {.code = code, .path = path, .message = cause.message()};
  return Status(cause.code(), "plugin " + path + ": " +
                                  std::string(load_stage_name(load_stage_of(code))) + ": " +
                                  cause.message());
}

}  // namespace encore
