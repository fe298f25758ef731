// The sampler's loops over a Vector. Include after its header.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>

#include "sample_levels.h"
#include "sample_row.h"
#include "vector_exp.h"

namespace encore::kernels {
namespace {

inline constexpr uint32_t kAllLanes = static_cast<uint32_t>((1ULL << Vector::kLanes) - 1);

struct SimdEngine {
  using V = Vector;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  // Lanes i .. of x, -infinity past n.
  static V::F load_or_lowest(const float* x, int32_t i, int32_t n) {
    if (n - i >= V::kLanes) return V::load(x + i);
    return V::replace_from(V::load_first(x + i, n - i), n - i, -kInfinity);
  }

  static RowScan scan(const float* x, int32_t n) {
    RowScan result{-kInfinity, 0, true};
    const V::F infinity = V::set(kInfinity);
    uint32_t finite = kAllLanes;
    int32_t best_chunk = 0;
    for (int32_t begin = 0; begin < n; begin += kSampleChunk) {
      const int32_t end = std::min(n, begin + kSampleChunk);
      V::F highest = V::set(-kInfinity);
      for (int32_t i = begin; i < end; i += V::kLanes) {
        const V::F value = load_or_lowest(x, i, n);
        finite &= V::above(infinity, value);
        highest = V::max(value, highest);
      }
      const float chunk_highest = V::highest(highest);
      if (chunk_highest > result.maximum) {
        result.maximum = chunk_highest;
        best_chunk = begin;
      }
    }
    result.finite = finite == kAllLanes;
    if (result.finite && result.maximum > -kInfinity) {
      result.argmax = best_chunk;
      while (x[result.argmax] != result.maximum) ++result.argmax;
    }
    return result;
  }

  static void weigh(const float* x, int32_t n, float maximum, float inverse_temperature,
                    float* weights, double* chunk_sums) {
    const V::F top = V::set(maximum);
    const V::F factor = V::set(inverse_temperature);
    for (int32_t begin = 0; begin < n; begin += kSampleChunk) {
      const int32_t end = std::min(n, begin + kSampleChunk);
      V::F sum = V::zero();
      for (int32_t i = begin; i < end; i += V::kLanes) {
        const V::F weight = exp(V::mul(V::sub(load_or_lowest(x, i, n), top), factor));
        V::store_first(weights + i, std::min(V::kLanes, n - i), weight);
        sum = V::add(sum, weight);
      }
      chunk_sums[begin / kSampleChunk] = V::wide_sum(sum);
    }
  }

  static double sum_exp(const float* x, int32_t n, float maximum) {
    const V::F top = V::set(maximum);
    double total = 0.0;
    for (int32_t begin = 0; begin < n; begin += kSampleChunk) {
      const int32_t end = std::min(n, begin + kSampleChunk);
      V::F sum = V::zero();
      for (int32_t i = begin; i < end; i += V::kLanes) {
        sum = V::add(sum, exp(V::sub(load_or_lowest(x, i, n), top)));
      }
      total += V::wide_sum(sum);
    }
    return total;
  }

  static int32_t next_above(const float* x, int32_t i, int32_t n, float threshold) {
    const V::F limit = V::set(threshold);
    for (; i < n; i += V::kLanes) {
      const uint32_t hits = V::above(load_or_lowest(x, i, n), limit);
      if (hits != 0) return i + std::countr_zero(hits);
    }
    return n;
  }

  static int32_t gather(const float* weights, int32_t n, float threshold, Candidate* list) {
    const V::F limit = V::set(threshold);
    int32_t count = 0;
    for (int32_t i = 0; i < n; i += V::kLanes) {
      uint32_t hits = V::at_least(load_or_lowest(weights, i, n), limit);
      for (; hits != 0; hits &= hits - 1) {
        const int32_t token = i + std::countr_zero(hits);
        list[count++] = {weights[token], token};
      }
    }
    return count;
  }
};

}  // namespace
}  // namespace encore::kernels
