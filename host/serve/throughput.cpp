#include "serve/throughput.h"

#include <cmath>
#include <cstdint>
#include <utility>

namespace encore {
namespace {

// "1,234,567".
std::string grouped(double value) {
  const std::string digits = std::to_string(std::llround(value));
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string percent(int64_t part, int64_t whole) {
  return grouped(100.0 * static_cast<double>(part) / static_cast<double>(whole)).append(" %");
}

}  // namespace

std::string ThroughputMeter::line(const EngineStats& stats, double seconds) {
  const EngineStats last = std::exchange(last_, stats);
  const int64_t steps = stats.num_steps - last.num_steps;
  if (steps <= 0 || seconds <= 0.0) return {};
  const auto rate = [seconds](int64_t now, int64_t before) {
    return grouped(static_cast<double>(now - before) / seconds).append(" tokens/s");
  };
  std::string line = "prompt ";
  line.append(rate(stats.prompt_tokens, last.prompt_tokens));
  line.append(", generation ").append(rate(stats.generation_tokens, last.generation_tokens));
  line.append(", running ").append(std::to_string(stats.num_running));
  line.append(", waiting ").append(std::to_string(stats.num_waiting));
  if (stats.num_pages > 0) line.append(", KV ").append(percent(stats.pages_used, stats.num_pages));
  const int64_t queries = stats.prefix_cache_queries - last.prefix_cache_queries;
  if (queries > 0) {
    const int64_t hits = stats.prefix_cache_hits - last.prefix_cache_hits;
    line.append(", prefix hits ").append(percent(hits, queries));
  }
  const int64_t host_ns = this->host_ns(stats.total_costs) - this->host_ns(last.total_costs);
  const double host_us = static_cast<double>(host_ns) / 1000.0 / static_cast<double>(steps);
  return line.append(", host ").append(grouped(host_us)).append(" us a step");
}

}  // namespace encore
