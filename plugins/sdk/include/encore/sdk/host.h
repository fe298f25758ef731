// What a plugin can ask of the host that loaded it.
#pragma once

#include <string_view>

#include "encore/backend_abi.h"
#include "encore/sdk/log_level.h"

namespace encore::sdk {

// Set by the entry function before anything else runs; each plugin has its own.
inline encore_host_info host_info{};

// Writes a line to the host's log, or nowhere if the host has none. Any thread.
inline void log(LogLevel level, std::string_view message) {
  if (host_info.log == nullptr) return;
  host_info.log(host_info.log_context, static_cast<int32_t>(level), message.data(), message.size());
}

}  // namespace encore::sdk
