// Log lines on stderr; stdout belongs to results.
#pragma once

#include <string>

#include "encore/config.h"
#include "encore/status.h"
#include "engine/log.h"

namespace encore {

// Whether lines say when they were written; as JSON they always do.
enum class LogTime { kNone, kUtc };

// Sends spdlog's default logger to stderr, as `config` says. Call again to change it.
void set_up_logging(const LogConfig& config, LogTime time = LogTime::kNone);

// For EngineOptions::log.
LogSink log_sink();

// Writes "encore: MESSAGE" to stderr whatever the level, or a JSON line if lines are JSON, and
// returns the exit code for `status`.
// REQUIRES: !status.ok().
int report_error(const Status& status);

}  // namespace encore
