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

// How far below the limit of their arithmetic the simplest steps stay: one token with nothing
// before it. On the kit's models the reference errs on them, rounded to TF32, by up to 0.0086 (root
// mean square 0.0027), to bf16 by 0.021 to 0.062 (0.0072 to 0.021). Divided by this, the limit for
// f32 lies midway (0.013, 0.0043), that for bf16 above all of its own (0.083, 0.027). A whole
// prompt errs up to five times as much, so that with less the luckiest bf16 would pass for f32 and
// then fail.
inline constexpr double kSimplestStepMargin = 3.0;

// The limit of an arithmetic that errs by `simplest` on those steps; the coarsest is for quantised
// weights alone.
const ErrorLimit& limit_of(const LogitError& simplest, bool quantised_weights);

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
