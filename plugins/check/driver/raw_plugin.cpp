#include "raw_plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "encore/loader/options.h"
#include "encore/sdk/abi_struct.h"
#include "encore/sdk/abi_text.h"
#include "plugin_context.h"
#include "to_abi.h"

namespace encore::check {

Result<RawEntry> open_entry(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable(::dlerror());
  void* entry = ::dlsym(library, ENCORE_BACKEND_ENTRY_NAME);
  if (entry == nullptr) return failed_precondition("it exports no " ENCORE_BACKEND_ENTRY_NAME);
  return RawEntry{reinterpret_cast<encore_backend_entry_fn>(entry)};
}

const encore_host_info* plain_host() {
  static constexpr std::string_view kVersion = "encore-plugin-check";
  static constexpr encore_host_info kHost = {.struct_size = sizeof(encore_host_info),
                                             .abi_major = ENCORE_ABI_MAJOR,
                                             .abi_minor = ENCORE_ABI_MINOR,
                                             .version = kVersion.data(),
                                             .version_size = kVersion.size(),
                                             .log = nullptr,
                                             .log_context = nullptr};
  return &kHost;
}

std::string description_fault(const RawResult& result) {
  const encore_error& error = result.error;
  if (result.code < ENCORE_OK || result.code > ENCORE_INTERNAL) {
    return "the function returned " + std::to_string(result.code) + ", which is no status";
  }
  if (error.struct_size != sizeof(encore_error)) {
    return "error.struct_size was changed to " + std::to_string(error.struct_size);
  }
  if (error.code != result.code) {
    return "the function returned " + std::to_string(result.code) + ", error.code is " +
           std::to_string(error.code);
  }
  if (error.scope < ENCORE_SCOPE_REQUEST || error.scope > ENCORE_SCOPE_PROCESS) {
    return "error.scope is " + std::to_string(error.scope) + "; it must be 0 to 3";
  }
  if (error.message_size == 0 || error.message_size > ENCORE_ERROR_MESSAGE_CAPACITY) {
    return "error.message_size is " + std::to_string(error.message_size) +
           "; a failure has a message of 1 to 996 bytes";
  }
  const std::string_view message(error.message, error.message_size);
  if (sdk::valid_utf8(message) != message) return "error.message is not valid UTF-8";
  return "";
}

RawSession::RawSession(const CheckContext& context, const encore_host_info* host)
    : device_(context.device) {
  const Status started = start(context, host);
  if (!started.ok()) outcome_ = skip("the plugin cannot be used: " + started.to_string());
}

RawSession::~RawSession() { shutdown(); }

Status RawSession::start(const CheckContext& context, const encore_host_info* host) {
  ENCORE_ASSIGN_OR_RETURN(const RawEntry entry, open_entry(context.plugin_path));
  RawResult called;
  sdk::prepare_error(&called.error);
  const encore_backend_table* raw = entry.call(host, &called.error);
  if (raw == nullptr) return internal_error("the entry function gave no table");
  LoadCode code = LoadCode::kNone;
  ENCORE_ASSIGN_OR_RETURN(const auto negotiated, negotiate(raw, &code));
  table_ = negotiated->table;
  auto probed = sdk::sized<encore_probe_result>();
  ENCORE_RETURN_IF_ERROR(raw_call(table_.probe, table_.backend, &probed).status());
  if (probed.usable == 0) {
    return unavailable(sdk::text_from_abi(
        probed.reason, std::min<uint64_t>(probed.reason_size, sizeof(probed.reason))));
  }
  ENCORE_ASSIGN_OR_RETURN(options_, check_options(negotiated->schema, context.options));
  return init();
}

Status RawSession::init() {
  const std::vector<encore_option_value> values = option_values_to_abi(options_);
  ENCORE_RETURN_IF_ERROR(raw_call(table_.init, table_.backend, values.data(), values.size(),
                                  uint64_t{sizeof(encore_option_value)})
                             .status());
  initialised_ = true;
  return {};
}

void RawSession::shutdown() {
  if (initialised_) table_.shutdown(table_.backend);
  initialised_ = false;
}

}  // namespace encore::check
