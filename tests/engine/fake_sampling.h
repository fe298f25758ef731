// A model without weights, and its sampler: pure functions that the fake device and the tests'
// reference both use.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "encore/forward_batch.h"

namespace encore::fake {

inline constexpr int32_t kVocabSize = 72;
inline constexpr int32_t kNumValidTokens = 64;  // ids 64 .. 71 have no text

inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

inline double unit(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

// Logits depend on every token and its place. Ids without text have the largest ones, so that a
// sampler that does not leave them out is found at once.
inline std::vector<double> logits_after(std::span<const int32_t> tokens) {
  uint64_t hash = 1;
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = mix(hash ^ (static_cast<uint64_t>(tokens[i]) << 32) ^ i);
  }
  std::vector<double> logits(kVocabSize);
  for (int32_t token = 0; token < kVocabSize; ++token) {
    logits[token] = 6.0 * unit(mix(hash + static_cast<uint64_t>(token) * 0x9e3779b97f4a7c15ULL));
    if (token >= kNumValidTokens) logits[token] += 50.0;
  }
  return logits;
}

struct Counts {
  int32_t in_prompt = 0;
  int32_t in_output = 0;
};

inline void penalise(std::vector<double>& logits, const RowSampling& row,
                     const std::map<int32_t, Counts>& counts) {
  for (const auto& [token, count] : counts) {
    double& logit = logits[token];
    logit = logit > 0.0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    if (count.in_output > 0) logit -= row.presence_penalty;
    logit -= static_cast<double>(row.frequency_penalty) * count.in_output;
  }
}

// Greedy, or the Gumbel trick with a stream that depends on (seed, position) alone.
inline int32_t pick(const std::vector<double>& logits, const RowSampling& row, int32_t num_valid) {
  int32_t best = -1;
  double best_score = 0.0;
  for (int32_t token = 0; token < num_valid; ++token) {
    if (std::isinf(logits[token])) continue;
    double score = logits[token];
    if (row.temperature >= 1e-4F) {
      const uint64_t bits = mix(mix(row.seed + 17) ^ mix(static_cast<uint64_t>(row.position)) ^
                                static_cast<uint64_t>(token) * 0x9e3779b97f4a7c15ULL);
      score = score / row.temperature - std::log(-std::log(unit(bits)));
    }
    if (best < 0 || score > best_score) {
      best = token;
      best_score = score;
    }
  }
  return best;
}

}  // namespace encore::fake
