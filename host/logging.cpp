#include "logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "exit_code.h"

namespace encore {
namespace {

// By LogLevel.
constexpr std::array<spdlog::level::level_enum, 4> kLevels = {
    spdlog::level::err, spdlog::level::warn, spdlog::level::info, spdlog::level::debug};

constexpr const char* kUtcTime = "%Y-%m-%dT%H:%M:%S.%eZ";

bool json_lines = false;  // set while there is one thread

// %J: the message as a JSON string, malformed UTF-8 replaced.
class JsonText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const nlohmann::json text = std::string(message.payload.data(), message.payload.size());
    const std::string quoted = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

std::unique_ptr<spdlog::formatter> make_formatter(const LogConfig& config, LogTime time) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  if (config.format == "json") {
    formatter->add_flag<JsonText>('J');
    formatter->set_pattern(std::string("{\"time\":\"") + kUtcTime +
                           "\",\"level\":\"%l\",\"message\":%J}");
  } else if (time == LogTime::kUtc) {
    formatter->set_pattern(std::string(kUtcTime) + " %^%l%$: %v");
  } else {
    formatter->set_pattern("%^%l%$: %v");
  }
  return formatter;
}

}  // namespace

void set_up_logging(const LogConfig& config, LogTime time) {
  json_lines = config.format == "json";
  auto logger = spdlog::get("encore");
  if (logger == nullptr) logger = spdlog::stderr_color_mt("encore");
  logger->set_formatter(make_formatter(config, time));
  logger->set_level(spdlog::level::from_str(config.level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

LogSink log_sink() {
  return [](LogLevel level, std::string_view message) {
    spdlog::log(kLevels[static_cast<size_t>(level)], "{}", message);
  };
}

int report_error(const Status& status) {
  if (json_lines) {
    spdlog::error("{}", status.message());
  } else {
    std::fprintf(stderr, "encore: %s\n", status.message().c_str());
  }
  return exit_code_of(status.code());
}

}  // namespace encore
