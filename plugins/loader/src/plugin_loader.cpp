#include "encore/loader/plugin_loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "backend_proxy.h"
#include "dependencies.h"
#include "elf_file.h"
#include "in_process.h"
#include "plugin_context.h"
#include "plugin_log.h"
#include "stage_error.h"

namespace encore {
namespace {

Status check_path(const std::string& path, LoadCode* code) {
  if (!path.starts_with('/')) {
    return stage_error(
        code, LoadCode::kPathRelative,
        invalid_argument("the path is relative; give an absolute one (paths in a configuration "
                         "are resolved against its file, never the working directory)"));
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return stage_error(code, LoadCode::kPathMissing, not_found(std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    return stage_error(code, LoadCode::kPathNotAFile, not_found("it is not a regular file"));
  }
  return {};
}

Status check_dependencies(const std::string& path, LoadCode* code) {
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> missing, missing_dependencies(path));
  if (missing.empty()) return {};
  std::string list;
  for (const std::string& library : missing) list += (list.empty() ? "" : ", ") + library;
  return stage_error(code, LoadCode::kDependencyMissing,
                     not_found("libraries not found: " + list +
                               "; install them or add their folder to LD_LIBRARY_PATH"));
}

Result<LoadedPlugin> run_stages(const std::string& path, const HostInfo& host, LoadCode* code) {
  ENCORE_RETURN_IF_ERROR(check_path(path, code));
  ENCORE_RETURN_IF_ERROR(read_elf(path, code).status());
  ENCORE_RETURN_IF_ERROR(check_dependencies(path, code));
  ENCORE_ASSIGN_OR_RETURN(const PluginEntry entry, open_plugin(path, code));
  ENCORE_ASSIGN_OR_RETURN(std::shared_ptr<const PluginContext> context,
                          enter_plugin(entry, persistent_host_info(host), code));
  LoadedPlugin plugin;
  plugin.name = context->identity.name;
  plugin.path = path;
  plugin.real_path = path;
  plugin.abi = {.major = context->table.abi_major, .minor = context->table.abi_minor};
  plugin.effective_abi = {.major = plugin.abi.major,
                          .minor = std::min(plugin.abi.minor, ENCORE_ABI_MINOR)};
  plugin.backend = std::make_unique<BackendProxy>(std::move(context));
  return plugin;
}

}  // namespace

Result<LoadedPlugin> load_plugin(const std::string& path, const HostInfo& host,
                                 LoadFailure* failure, const PluginLoadOptions& /*options*/) {
  LoadCode code = LoadCode::kNone;
  Result<LoadedPlugin> plugin = [&]() -> Result<LoadedPlugin> {
    try {
      return run_stages(path, host, &code);
    } catch (const std::exception& exception) {  // from Boost.DLL or the standard library
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

std::string find_probe_program() { return {}; }

std::string default_verdict_folder() { return {}; }

}  // namespace encore
