// Log lines on stderr; stdout belongs to results.
#pragma once

#include <string>

#include "encore/status.h"
#include "engine/log.h"

namespace encore {

// Sends spdlog's default logger to stderr at `level`: error, warn, info or debug (the values of
// log.level). Call again to change the level.
void set_up_logging(const std::string& level);

// For EngineOptions::log.
LogSink log_sink();

// Writes "encore: MESSAGE" to stderr whatever the level, and returns the exit code for `status`.
// REQUIRES: !status.ok().
int report_error(const Status& status);

}  // namespace encore
