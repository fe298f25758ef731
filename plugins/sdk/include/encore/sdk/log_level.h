// How much a line of the log matters.
#pragma once

#include <cstdint>

#include "encore/backend_abi.h"

namespace encore::sdk {

enum class LogLevel : int32_t {
  kError = ENCORE_LOG_ERROR,
  kWarn = ENCORE_LOG_WARN,
  kInfo = ENCORE_LOG_INFO,
  kDebug = ENCORE_LOG_DEBUG,
};

}  // namespace encore::sdk
