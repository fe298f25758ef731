// The host's side of encore_host_info: one struct for the life of the process, and where its log
// lines go.
#pragma once

#include <string>
#include <string_view>

#include "encore/backend_abi.h"
#include "encore/loader/plugin_loader.h"

namespace encore {

// The struct handed to every plugin. Its log goes to the `log` given last; its version is the one
// given first.
const encore_host_info* persistent_host_info(const HostInfo& host);

// Writes a line to that log. Any thread; never throws.
void plugin_log(sdk::LogLevel level, std::string_view message) noexcept;

}  // namespace encore
