// The specification of sampling (core/include/encore/forward_batch.h), in float64, as far as a rule
// needs it: which token may come, with what probability; not which random number chose it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/forward_batch.h"

namespace encore::check {

// exp(logit / temperature) normalised. REQUIRES: temperature > 0.
std::vector<double> probabilities_of(std::span<const double> logits, double temperature);

// Natural logarithms of the probabilities at temperature 1.
std::vector<double> log_softmax(std::span<const double> logits);

// Logits after biases and penalties. Tokens of `history` with a count of 0 are not in it.
std::vector<double> edited_logits(std::span<const double> logits, const RowSampling& sampling,
                                  std::span<const TokenBias> biases,
                                  std::span<const TokenCount> history);

// What the filters leave of the candidates. Where rounding may decide, a token is only perhaps
// kept.
struct Kept {
  std::vector<bool> surely;
  std::vector<bool> perhaps;
};
// REQUIRES: one of top_k, top_p and min_p is on: the order of several is not specified.
Kept kept_tokens(std::span<const double> probabilities, const RowSampling& sampling);

// How far counts of draws are from what the probabilities say: the chi-square statistic's distance
// from its mean, in standard deviations. Tokens expected fewer than ten times are taken together.
// Sound draws stay below 5 in all but one of a million trials.
double draw_excess(std::span<const int64_t> counts, std::span<const double> probabilities);

}  // namespace encore::check
