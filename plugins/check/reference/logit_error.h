// How far logits are from others, and how far they may be. docs/conformance.md says why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace encore::check {

// Differences in units of the expected row's spread (the standard deviation of its logits), so that
// one limit serves all models.
struct LogitError {
  double max = 0.0;
  double rms = 0.0;  // of the worst row

  // Of two measurements the worse.
  void add(const LogitError& other);
};

// Infinite if a value is NaN or infinite. REQUIRES: equal sizes, not empty.
LogitError logit_error(std::span<const float> found, std::span<const double> expected);
LogitError logit_error(std::span<const float> found, std::span<const float> expected);
LogitError logit_error(std::span<const double> found, std::span<const double> expected);

// What a device's arithmetic allows.
struct ErrorLimit {
  std::string_view arithmetic;
  double max = 0.0;
  double rms = 0.0;

  bool holds(const LogitError& error) const { return error.max <= max && error.rms <= rms; }
};

// f32, and TF32 with room: at most 2^-11 lost at each op.
inline constexpr ErrorLimit kFineLimit = {"f32", 0.04, 0.013};
// bf16 activations: 2^-9 lost at each op.
inline constexpr ErrorLimit kReducedLimit = {"bf16", 0.25, 0.08};
// Quantised weights with int8 activations.
inline constexpr ErrorLimit kQuantisedLimit = {"int8", 0.6, 0.2};

// A limit is a device's if its simplest steps stay below it by this factor. Each arithmetic does,
// as the kit's own reference rounds it.
inline constexpr double kArithmeticMargin = 1.5;

// "largest error 0.412 of the logits' spread (limit 0.020), root mean square 0.101 (limit 0.006)"
std::string describe(const LogitError& error, const ErrorLimit& limit);

// The highest logit's index, the lowest among equals; and by how much it leads, in units of the
// spread.
struct Leader {
  int32_t token = 0;
  double gap = 0.0;
};
Leader leader_of(std::span<const double> logits);

double spread_of(std::span<const double> logits);

std::vector<double> widened(std::span<const float> values);

}  // namespace encore::check
