#include "encore/loader/plugin_loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <array>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "backend_proxy.h"
#include "dependencies.h"
#include "elf_file.h"
#include "encore/sdk/abi_status.h"
#include "plugin_context.h"
#include "plugin_log.h"

namespace encore {
namespace {

// Carries the stage along, so that each step below can simply return its Status.
class Attempt {
 public:
  explicit Attempt(std::string path) : path_(std::move(path)) {}

  void enter(LoadStage stage) { stage_ = stage; }
  LoadFailure failure(const Status& status) const { return {stage_, path_, status.message()}; }
  Status status(const Status& cause) const {
    return {cause.code(), "plugin " + path_ + ": " + std::string(load_stage_name(stage_)) + ": " +
                              cause.message()};
  }

 private:
  LoadStage stage_ = LoadStage::kPath;
  std::string path_;
};

Status check_path(const std::string& path) {
  if (!path.starts_with('/')) {
    return invalid_argument(
        "the path is relative; give an absolute one (paths in a configuration "
        "are resolved against its file, never the working directory)");
  }
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return not_found(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return not_found("it is not a regular file");
  return {};
}

Status check_dependencies(const std::string& path) {
  ENCORE_ASSIGN_OR_RETURN(const std::vector<std::string> missing, missing_dependencies(path));
  if (missing.empty()) return {};
  std::string list;
  for (const std::string& library : missing) list += (list.empty() ? "" : ", ") + library;
  return not_found("libraries not found: " + list +
                   "; install them or add their folder to LD_LIBRARY_PATH");
}

struct Entry {
  encore_backend_entry_fn call = nullptr;
};

// The entry function of a library that stays mapped for the life of the process.
Result<Entry> open_library(const std::string& path, Attempt* attempt) {
  attempt->enter(LoadStage::kLoad);
  namespace load_mode = boost::dll::load_mode;
  std::error_code error;
  // Never destroyed, since destroying it would unload the plugin under its own threads.
  auto library = std::make_unique<boost::dll::shared_library>();
  ::dlerror();
  library->load(path, load_mode::rtld_now | load_mode::rtld_local, error);
  if (error) {
    const char* reason = ::dlerror();
    return unavailable(reason != nullptr ? reason : error.message());
  }
  static auto* const libraries = new std::vector<std::unique_ptr<boost::dll::shared_library>>;
  boost::dll::shared_library& mapped = *libraries->emplace_back(std::move(library));
  attempt->enter(LoadStage::kNegotiation);
  if (!mapped.has(ENCORE_BACKEND_ENTRY_NAME)) {
    return failed_precondition("it exports no " ENCORE_BACKEND_ENTRY_NAME
                               "; it is a shared library, but not an Encore plugin");
  }
  return Entry{&mapped.get<const encore_backend_table*(const encore_host_info*, encore_error*)>(
      ENCORE_BACKEND_ENTRY_NAME)};
}

Result<std::shared_ptr<const PluginContext>> call_entry(Entry entry, const encore_host_info* host) {
  encore_error error;
  sdk::prepare_error(&error);
  const encore_backend_table* table = nullptr;
  try {
    table = entry.call(host, &error);
  } catch (const std::exception& exception) {
    return internal_error(std::string("its entry function threw: ") + exception.what());
  } catch (...) {
    return internal_error("its entry function threw");
  }
  if (table != nullptr) return negotiate(table);
  const encore_status code = error.code == ENCORE_OK ? ENCORE_INTERNAL : error.code;
  return sdk::status_from_abi(code, error);
}

Result<LoadedPlugin> run_stages(const std::string& path, const encore_host_info* host,
                                Attempt* attempt) {
  ENCORE_RETURN_IF_ERROR(check_path(path));
  attempt->enter(LoadStage::kElf);
  ENCORE_RETURN_IF_ERROR(read_elf(path).status());
  attempt->enter(LoadStage::kDependencies);
  ENCORE_RETURN_IF_ERROR(check_dependencies(path));
  ENCORE_ASSIGN_OR_RETURN(const Entry entry, open_library(path, attempt));
  ENCORE_ASSIGN_OR_RETURN(std::shared_ptr<const PluginContext> context, call_entry(entry, host));
  LoadedPlugin plugin;
  plugin.name = context->identity.name;
  plugin.path = path;
  plugin.backend = std::make_unique<BackendProxy>(std::move(context));
  return plugin;
}

}  // namespace

std::string_view load_stage_name(LoadStage stage) {
  constexpr std::array<std::string_view, 6> kNames = {"path", "ELF",         "dependencies",
                                                      "load", "negotiation", "registration"};
  const auto index = static_cast<size_t>(stage);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown");
}

Result<LoadedPlugin> load_plugin(const std::string& path, const HostInfo& host,
                                 LoadFailure* failure) {
  Attempt attempt(path);
  Result<LoadedPlugin> plugin = [&]() -> Result<LoadedPlugin> {
    try {
      return run_stages(path, persistent_host_info(host), &attempt);
    } catch (const std::exception& exception) {  // from Boost.DLL or the standard library
      return internal_error(exception.what());
    }
  }();
  if (plugin.ok()) return plugin;
  if (failure != nullptr) *failure = attempt.failure(plugin.status());
  return attempt.status(plugin.status());
}

}  // namespace encore
