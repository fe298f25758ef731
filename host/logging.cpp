#include "logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdio>
#include <memory>

#include "exit_code.h"

namespace encore {
namespace {

// By LogLevel.
constexpr std::array<spdlog::level::level_enum, 4> kLevels = {
    spdlog::level::err, spdlog::level::warn, spdlog::level::info, spdlog::level::debug};

}  // namespace

void set_up_logging(const std::string& level) {
  auto logger = spdlog::get("encore");
  if (logger == nullptr) logger = spdlog::stderr_color_mt("encore");
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

LogSink log_sink() {
  return [](LogLevel level, std::string_view message) {
    spdlog::log(kLevels[static_cast<size_t>(level)], "{}", message);
  };
}

int report_error(const Status& status) {
  std::fprintf(stderr, "encore: %s\n", status.message().c_str());
  return exit_code_of(status.code());
}

}  // namespace encore
