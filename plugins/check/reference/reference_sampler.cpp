#include "reference_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace encore::check {
namespace {

constexpr double kSlack = 2e-3;  // relative, or of the whole probability
constexpr double kFewestExpected = 10.0;

}  // namespace

std::vector<double> probabilities_of(std::span<const double> logits, double temperature) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double sum = 0.0;
  for (const double logit : logits) {
    result.push_back(std::exp((logit - highest) / temperature));
    sum += result.back();
  }
  for (double& value : result) value /= sum;
  return result;
}

std::vector<double> log_softmax(std::span<const double> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  std::vector<double> result;
  for (const double logit : logits) result.push_back(logit - highest - std::log(sum));
  return result;
}

std::vector<double> edited_logits(std::span<const double> logits, const RowSampling& sampling,
                                  std::span<const TokenBias> biases,
                                  std::span<const TokenCount> history) {
  std::vector<double> result(logits.begin(), logits.end());
  for (const TokenBias& entry : biases) {
    result[static_cast<size_t>(entry.token)] += static_cast<double>(entry.bias);
  }
  const auto repetition = static_cast<double>(sampling.repetition_penalty);
  for (const TokenCount& seen : history) {
    double& logit = result[static_cast<size_t>(seen.token)];
    if (seen.in_prompt + seen.in_output > 0) logit *= logit > 0.0 ? 1.0 / repetition : repetition;
    if (seen.in_output > 0) {
      logit -= static_cast<double>(sampling.frequency_penalty) * seen.in_output;
      logit -= static_cast<double>(sampling.presence_penalty);
    }
  }
  return result;
}

Kept kept_tokens(std::span<const double> probabilities, const RowSampling& sampling) {
  const size_t count = probabilities.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  const double highest = probabilities[order[0]];
  Kept kept{std::vector<bool>(count, true), std::vector<bool>(count, true)};
  const auto narrow = [&](size_t token, bool surely, bool perhaps) {
    kept.surely[token] = kept.surely[token] && surely;
    kept.perhaps[token] = kept.perhaps[token] && perhaps;
  };
  double before = 0.0;  // probability of those that rank above
  for (size_t rank = 0; rank < count; ++rank) {
    const size_t token = order[rank];
    const double probability = probabilities[token];
    if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < count) {
      const auto top_k = static_cast<size_t>(sampling.top_k);
      narrow(token, probability > probabilities[order[top_k]] * (1.0 + kSlack),
             probability > probabilities[order[top_k - 1]] * (1.0 - kSlack));
    }
    if (sampling.top_p < 1.0F) {
      const auto top_p = static_cast<double>(sampling.top_p);
      narrow(token, rank == 0 || before < top_p - kSlack, rank == 0 || before < top_p + kSlack);
    }
    if (sampling.min_p > 0.0F) {
      const double least = highest * static_cast<double>(sampling.min_p);
      narrow(token, rank == 0 || probability > least * (1.0 + kSlack),
             rank == 0 || probability > least * (1.0 - kSlack));
    }
    before += probability;
  }
  return kept;
}

double draw_excess(std::span<const int64_t> counts, std::span<const double> probabilities) {
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double statistic = 0.0;
  double cells = 0.0;
  const auto add_cell = [&](double found, double expected) {
    statistic += (found - expected) * (found - expected) / expected;
    cells += 1.0;
  };
  double rest_found = 0.0;
  double rest_expected = 0.0;
  for (size_t token = 0; token < counts.size(); ++token) {
    const auto found = static_cast<double>(counts[token]);
    const double expected = probabilities[token] * draws;
    if (expected >= kFewestExpected) {
      add_cell(found, expected);
    } else {
      rest_found += found;
      rest_expected += expected;
    }
  }
  // Less than a draw expected of all the rest: any one that came counts as if one had been.
  if (rest_found > 0.0 || rest_expected > 1.0) add_cell(rest_found, std::max(rest_expected, 1.0));
  const double degrees = std::max(cells - 1.0, 1.0);
  return (statistic - degrees) / std::sqrt(2.0 * degrees);
}

}  // namespace encore::check
