#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "model/printable.h"

namespace encore {
namespace {

constexpr std::pair<std::string_view, RopeScaling> kTypeNames[] = {
    {"default", RopeScaling::kNone},  {"none", RopeScaling::kNone},
    {"linear", RopeScaling::kLinear}, {"dynamic", RopeScaling::kDynamic},
    {"llama3", RopeScaling::kLlama3}, {"yarn", RopeScaling::kYarn},
};

constexpr double kTurn = 2.0 * std::numbers::pi;

Status out_of_range(const std::string& where, const char* name, double value, const char* range) {
  return invalid_argument(
      concat_message(where, ": RoPE ", name, " is ", value, "; it must be ", range));
}

Status check(const RopeParameters& p, const std::string& where) {
  if (!std::isfinite(p.theta) || p.theta <= 1.0) {
    return out_of_range(where, "theta", p.theta, "finite and above 1");
  }
  if (p.scaling == RopeScaling::kNone) return {};
  if (!std::isfinite(p.factor) || p.factor <= 0.0) {
    return out_of_range(where, "factor", p.factor, "finite and above 0");
  }
  const bool needs_context = p.scaling == RopeScaling::kLlama3 || p.scaling == RopeScaling::kYarn;
  if (needs_context && !(std::isfinite(p.original_context) && p.original_context >= 1.0)) {
    return out_of_range(where, "original context", p.original_context, "1 or more");
  }
  if (p.scaling == RopeScaling::kLlama3 &&
      !(p.low_freq_factor > 0.0 && p.high_freq_factor > p.low_freq_factor &&
        std::isfinite(p.high_freq_factor))) {
    return out_of_range(where, "high_freq_factor", p.high_freq_factor,
                        "above low_freq_factor, which must be above 0");
  }
  if (p.scaling == RopeScaling::kYarn &&
      !(p.beta_slow > 0.0 && p.beta_fast >= p.beta_slow && std::isfinite(p.beta_fast))) {
    return out_of_range(where, "beta_fast", p.beta_fast,
                        "at least beta_slow, which must be above 0");
  }
  return {};
}

// Long waves are stretched, short ones kept, those between blended.
// Source: the Llama 3.1 release's reference code.
double llama3_frequency(const RopeParameters& p, double frequency) {
  const double turns = p.original_context * frequency / kTurn;  // over the original context
  if (turns > p.high_freq_factor) return frequency;
  if (turns < p.low_freq_factor) return frequency / p.factor;
  const double keep = (turns - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
  return (1.0 - keep) * frequency / p.factor + keep * frequency;
}

// The pair, as a real number, that turns `turns` times over the original context.
double yarn_pair(const RopeParameters& p, double turns, int64_t head_dim) {
  return static_cast<double>(head_dim) * std::log(p.original_context / (turns * kTurn)) /
         (2.0 * std::log(p.theta));
}

// Source: Peng et al. 2023 (YaRN), section 3.2.
void apply_yarn(const RopeParameters& p, int64_t head_dim, std::vector<double>& frequencies) {
  double low = yarn_pair(p, p.beta_fast, head_dim);
  double high = yarn_pair(p, p.beta_slow, head_dim);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double stretch = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretch / p.factor + (1.0 - stretch);
  }
}

double yarn_attention_scale(const RopeParameters& p) {
  if (p.attention_factor) return *p.attention_factor;
  const auto scale = [&p](double mscale) {
    return p.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(p.factor) + 1.0;
  };
  if (p.mscale != 0.0 && p.mscale_all_dim != 0.0) return scale(p.mscale) / scale(p.mscale_all_dim);
  return scale(1.0);
}

}  // namespace

Result<RopeScaling> parse_rope_scaling(std::string_view name, const std::string& where) {
  for (const auto& [known, scaling] : kTypeNames) {
    if (known == name) return scaling;
  }
  return unimplemented(concat_message(where, " has RoPE type ", printable(name),
                                      "; supported: default, linear, dynamic, llama3, yarn"));
}

Result<RopeSpec> make_rope(const RopeParameters& parameters, int64_t head_dim, RopeStyle style,
                           const std::string& where) {
  ENCORE_RETURN_IF_ERROR(check(parameters, where));
  const auto pairs = static_cast<size_t>(head_dim / 2);
  if (!parameters.divisors.empty() && parameters.divisors.size() != pairs) {
    return invalid_argument(concat_message(where, " has ", parameters.divisors.size(),
                                           " RoPE factors; expected head_dim / 2 = ", pairs));
  }
  std::vector<double> frequencies(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    frequencies[i] = std::pow(parameters.theta, -exponent);
    if (!parameters.divisors.empty()) frequencies[i] /= parameters.divisors[i];
    if (parameters.scaling == RopeScaling::kLinear) frequencies[i] /= parameters.factor;
    if (parameters.scaling == RopeScaling::kLlama3) {
      frequencies[i] = llama3_frequency(parameters, frequencies[i]);
    }
  }
  double attention_scale = 1.0;
  if (parameters.scaling == RopeScaling::kYarn) {
    apply_yarn(parameters, head_dim, frequencies);
    attention_scale = yarn_attention_scale(parameters);
  }
  if (!(attention_scale > 0.0 && attention_scale < 1e6)) {
    return out_of_range(where, "attention factor", attention_scale, "above 0 and below 1e6");
  }
  RopeSpec rope;
  rope.style = style;
  rope.attention_scale = static_cast<float>(attention_scale);
  rope.inv_freq.reserve(pairs);
  for (const double frequency : frequencies) {
    if (!(frequency > 0.0 && frequency < 1e6)) {
      return out_of_range(where, "frequency", frequency, "above 0 and below 1e6");
    }
    rope.inv_freq.push_back(static_cast<float>(frequency));
  }
  return rope;
}

}  // namespace encore
