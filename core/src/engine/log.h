// Where the engine's rare log lines go; core itself depends on no logging library.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace encore {

enum class LogLevel : int32_t { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3 };

// Called on the thread that steps the engine, at most once per kind of event. May be empty.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

}  // namespace encore
