#include "in_process.h"

#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "encore/sdk/abi_status.h"
#include "stage_error.h"

namespace encore {
namespace {

// Never destroyed, since destroying a library would unload the plugin under its own threads.
boost::dll::shared_library& keep(std::unique_ptr<boost::dll::shared_library> library) {
  static auto* const libraries = new std::vector<std::unique_ptr<boost::dll::shared_library>>;
  return *libraries->emplace_back(std::move(library));
}

Status threw(LoadCode* code, const std::string& what) {
  return stage_error(code, LoadCode::kProbeThrew,
                     internal_error("an exception left the plugin: " + what +
                                    "; nothing may be thrown across the boundary"));
}

Result<std::shared_ptr<const PluginContext>> call_entry(PluginEntry entry,
                                                        const encore_host_info* host,
                                                        LoadCode* code) {
  encore_error error;
  sdk::prepare_error(&error);
  const encore_backend_table* table = entry.call(host, &error);
  if (table != nullptr) return negotiate(table, code);
  const encore_status reported = error.code == ENCORE_OK ? ENCORE_INTERNAL : error.code;
  return stage_error(code, LoadCode::kEntryFailed, sdk::status_from_abi(reported, error));
}

}  // namespace

Result<PluginEntry> open_plugin(const std::string& path, LoadCode* code) {
  namespace load_mode = boost::dll::load_mode;
  std::error_code error;
  auto library = std::make_unique<boost::dll::shared_library>();
  ::dlerror();
  // An exception in a static initialiser ends the process: no frame of the linker lets it through.
  library->load(path, load_mode::rtld_now | load_mode::rtld_local, error);
  if (error) {
    const char* reason = ::dlerror();
    return stage_error(code, LoadCode::kLinker,
                       unavailable(reason != nullptr ? reason : error.message()));
  }
  boost::dll::shared_library& mapped = keep(std::move(library));
  if (!mapped.has(ENCORE_BACKEND_ENTRY_NAME)) {
    return stage_error(code, LoadCode::kNoEntry,
                       failed_precondition("it exports no " ENCORE_BACKEND_ENTRY_NAME
                                           "; it is a shared library, but not an Encore plugin"));
  }
  return PluginEntry{
      &mapped.get<const encore_backend_table*(const encore_host_info*, encore_error*)>(
          ENCORE_BACKEND_ENTRY_NAME)};
}

Result<std::shared_ptr<const PluginContext>> enter_plugin(PluginEntry entry,
                                                          const encore_host_info* host,
                                                          LoadCode* code) {
  try {
    return call_entry(entry, host, code);
  } catch (const std::exception& exception) {
    return threw(code, exception.what());
  } catch (...) {
    return threw(code, "of unknown type");
  }
}

}  // namespace encore
