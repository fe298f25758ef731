// Which tokens stay after min_p, top_k and top_p, and which of them a uniform number picks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace encore::kernels {

inline constexpr int32_t kSampleChunk = 256;  // tokens whose weights are summed together

namespace {  // compiled once for each instruction set: must not be shared between them

struct Candidate {
  float weight;  // exp((logit - highest) / temperature)
  int32_t token;
};

// The order of candidates: falling weight, then rising id.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

inline double sum_of_weights(const Candidate* begin, const Candidate* end) {
  double sum = 0.0;
  for (const Candidate* c = begin; c != end; ++c) sum += static_cast<double>(c->weight);
  return sum;
}

// Moves the shortest prefix (in rank order) whose weights reach `mass` to the front, unordered
// but for its last element; returns its length, at least 1. REQUIRES: count >= 1.
inline int32_t keep_mass(Candidate* list, int32_t count, double mass) {
  int32_t begin = 0;
  int32_t end = count;
  double before = 0.0;  // weight of [0, begin)
  while (end - begin > 32) {
    const int32_t middle = begin + (end - begin) / 2;
    std::nth_element(list + begin, list + middle, list + end, ranks_before);
    const double upper = sum_of_weights(list + begin, list + middle);
    if (before + upper >= mass) {
      end = middle;
    } else {
      before += upper;
      begin = middle;
    }
  }
  std::sort(list + begin, list + end, ranks_before);
  while (begin < end) {
    before += static_cast<double>(list[begin].weight);
    ++begin;
    if (before >= mass) break;
  }
  return std::max(begin, 1);
}

// Moves the `k` first in rank order to the front.
inline int32_t keep_first(Candidate* list, int32_t count, int32_t k) {
  if (k >= count) return count;
  std::nth_element(list, list + (k - 1), list + count, ranks_before);
  return k;
}

// Inverse CDF over a list, in order of id.
inline int32_t pick_from_list(Candidate* list, int32_t count, double uniform) {
  std::sort(list, list + count,
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  const double target = uniform * sum_of_weights(list, list + count);
  double sum = 0.0;
  for (int32_t i = 0; i < count; ++i) {
    sum += static_cast<double>(list[i].weight);
    if (sum > target) return list[i].token;
  }
  return list[count - 1].token;
}

// Inverse CDF over all tokens, in order of id; chunk_sums[c] is the weight of chunk c.
inline int32_t pick_from_all(const float* weights, int32_t count, const double* chunk_sums,
                             double uniform) {
  const int32_t chunks = (count + kSampleChunk - 1) / kSampleChunk;
  double total = 0.0;
  for (int32_t c = 0; c < chunks; ++c) total += chunk_sums[c];
  const double target = uniform * total;
  double sum = 0.0;
  int32_t last = 0;
  for (int32_t c = 0; c < chunks; ++c) {
    if (sum + chunk_sums[c] <= target) {
      sum += chunk_sums[c];
      continue;
    }
    double inside = sum;
    const int32_t end = std::min(count, (c + 1) * kSampleChunk);
    for (int32_t i = c * kSampleChunk; i < end; ++i) {
      if (weights[i] <= 0.0F) continue;
      last = i;
      inside += static_cast<double>(weights[i]);
      if (inside > target) return i;
    }
    return last;  // rounding: the chunk's own sum was above the target by less than an ulp
  }
  for (int32_t i = count - 1; i > 0; --i) {
    if (weights[i] > 0.0F) return i;
  }
  return last;
}

}  // namespace
}  // namespace encore::kernels
