// Which tokens stay after min_p, top_k and top_p, and which of them a uniform number picks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

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

// Which of kWeightBins equal steps between the lowest and highest weight of a list.
struct WeightBins {
  static constexpr int32_t kCount = 2048;
  float lowest;
  float scale;

  WeightBins(const Candidate* list, int32_t count) : lowest(list->weight) {
    float highest = lowest;
    for (int32_t i = 1; i < count; ++i) {
      lowest = std::min(lowest, list[i].weight);
      highest = std::max(highest, list[i].weight);
    }
    scale = highest > lowest ? static_cast<float>(kCount - 1) / (highest - lowest) : 0.0F;
  }
  int32_t bin(const Candidate& c) const {
    return std::min(static_cast<int32_t>((c.weight - lowest) * scale), kCount - 1);
  }
};

struct MassRange {
  int32_t begin;  // all before it are kept
  int32_t end;    // none from here on is
  double before;  // weight of [0, begin)
};

// Brings the candidates of heavy bins to the front, then those of the bin where the running weight
// reaches `mass`, without sorting: for lists that are long because the distribution is flat.
inline MassRange narrow_by_bins(Candidate* list, int32_t count, double mass) {
  const WeightBins bins(list, count);
  double sums[WeightBins::kCount] = {};
  for (int32_t i = 0; i < count; ++i)
    sums[bins.bin(list[i])] += static_cast<double>(list[i].weight);
  int32_t border = WeightBins::kCount - 1;
  double before = 0.0;
  while (border > 0 && before + sums[border] < mass) before += sums[border--];
  int32_t begin = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (bins.bin(list[i]) > border) std::swap(list[begin++], list[i]);
  }
  int32_t end = begin;
  for (int32_t i = begin; i < count; ++i) {
    if (bins.bin(list[i]) == border) std::swap(list[end++], list[i]);
  }
  return {begin, end, before};
}

// Moves the shortest prefix (in rank order) whose weights reach `mass` to the front, in any order;
// returns its length, at least 1. REQUIRES: count >= 1.
inline int32_t keep_mass(Candidate* list, int32_t count, double mass) {
  auto [begin, end, before] =
      count > 1024 ? narrow_by_bins(list, count, mass) : MassRange{0, count, 0.0};
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

// Drops what ranks after `last` from a list in order of id; returns how many stay.
inline int32_t drop_after(const Candidate& last, Candidate* list, int32_t count) {
  int32_t kept = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (!ranks_before(last, list[i])) list[kept++] = list[i];
  }
  return kept;
}

// Inverse CDF over a list in order of id.
inline int32_t pick_from_list(const Candidate* list, int32_t count, double uniform) {
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
