#include "plugin_log.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>

#include "encore/sdk/abi_text.h"

namespace encore {
namespace {

// Never destroyed: plugins may log while the process ends.
struct Sink {
  std::mutex mutex;
  std::function<void(sdk::LogLevel, std::string_view)> log;
  std::string version;
  encore_host_info info{};
};

Sink& sink() {
  static Sink* const instance = new Sink;
  return *instance;
}

void log_from_plugin(void* /*context*/, int32_t level, const char* message,
                     uint64_t message_size) noexcept {
  const int32_t known = std::clamp(level, ENCORE_LOG_ERROR, ENCORE_LOG_DEBUG);
  plugin_log(static_cast<sdk::LogLevel>(known), sdk::text_from_abi(message, message_size));
}

}  // namespace

const encore_host_info* persistent_host_info(const HostInfo& host) {
  Sink& state = sink();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (host.log) state.log = host.log;
  if (state.info.struct_size == 0) {
    state.version = host.version;
    state.info = {.struct_size = sizeof(encore_host_info),
                  .abi_major = ENCORE_ABI_MAJOR,
                  .abi_minor = ENCORE_ABI_MINOR,
                  .version = state.version.data(),
                  .version_size = state.version.size(),
                  .log = log_from_plugin,
                  .log_context = nullptr};
  }
  return &state.info;
}

void plugin_log(sdk::LogLevel level, std::string_view message) noexcept {
  try {
    std::function<void(sdk::LogLevel, std::string_view)> log;
    {
      const std::lock_guard<std::mutex> lock(sink().mutex);
      log = sink().log;
    }
    if (log) log(level, message);
  } catch (...) {  // a log that fails must not take a step with it
    return;
  }
}

}  // namespace encore
