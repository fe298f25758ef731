#include "logit_error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace encore::check {

void LogitError::add(const LogitError& other) {
  max = std::max(max, other.max);
  rms = std::max(rms, other.rms);
}

std::vector<double> widened(std::span<const float> values) {
  return {values.begin(), values.end()};
}

double spread_of(std::span<const double> logits) {
  const auto count = static_cast<double>(logits.size());
  double mean = 0.0;
  for (const double value : logits) mean += value / count;
  double variance = 0.0;
  for (const double value : logits) variance += (value - mean) * (value - mean) / count;
  return std::sqrt(variance);
}

LogitError logit_error(std::span<const double> found, std::span<const double> expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double spread = spread_of(expected);
  LogitError error;
  double squares = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]) / spread;
    if (!std::isfinite(difference)) return {kInfinity, kInfinity};
    error.max = std::max(error.max, difference);
    squares += difference * difference;
  }
  error.rms = std::sqrt(squares / static_cast<double>(expected.size()));
  return error;
}

LogitError logit_error(std::span<const float> found, std::span<const double> expected) {
  return logit_error(std::span<const double>(widened(found)), expected);
}

LogitError logit_error(std::span<const float> found, std::span<const float> expected) {
  return logit_error(std::span<const double>(widened(found)), widened(expected));
}

const ErrorLimit& limit_of(const LogitError& simplest, bool quantised_weights) {
  const LogitError with_margin = {kSimplestStepMargin * simplest.max,
                                  kSimplestStepMargin * simplest.rms};
  if (kFineLimit.holds(with_margin)) return kFineLimit;
  if (kReducedLimit.holds(with_margin) || !quantised_weights) return kReducedLimit;
  return kQuantisedLimit;
}

std::string describe(const LogitError& error, const ErrorLimit& limit) {
  char text[160];
  const int length = std::snprintf(
      text, sizeof(text),
      "largest error %.3g of the logits' spread (limit %.3g), root mean square %.3g (limit %.3g)",
      error.max, limit.max, error.rms, limit.rms);
  return {text, static_cast<size_t>(std::max(length, 0))};
}

Leader leader_of(std::span<const double> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double second = -std::numeric_limits<double>::infinity();
  for (auto it = logits.begin(); it != logits.end(); ++it) {
    if (it != best) second = std::max(second, *it);
  }
  return {static_cast<int32_t>(best - logits.begin()), (*best - second) / spread_of(logits)};
}

}  // namespace encore::check
