#include "kernels/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "built_level.h"
#include "sample_levels.h"
#include "sample_row.h"

namespace encore::kernels {
namespace {

struct ReferenceEngine {
  static RowScan scan(const float* x, int32_t n) {
    RowScan result{-std::numeric_limits<float>::infinity(), 0, true};
    for (int32_t i = 0; i < n; ++i) {
      if (!(x[i] < std::numeric_limits<float>::infinity())) result.finite = false;
      if (x[i] > result.maximum) {
        result.maximum = x[i];
        result.argmax = i;
      }
    }
    return result;
  }

  static void weigh(const float* x, int32_t n, float maximum, float inverse_temperature,
                    float* weights, double* chunk_sums) {
    for (int32_t begin = 0; begin < n; begin += kSampleChunk) {
      double sum = 0.0;
      const int32_t end = std::min(n, begin + kSampleChunk);
      for (int32_t i = begin; i < end; ++i) {
        weights[i] = std::exp((x[i] - maximum) * inverse_temperature);
        sum += static_cast<double>(weights[i]);
      }
      chunk_sums[begin / kSampleChunk] = sum;
    }
  }

  static double sum_exp(const float* x, int32_t n, float maximum) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; ++i) sum += static_cast<double>(std::exp(x[i] - maximum));
    return sum;
  }

  static int32_t next_above(const float* x, int32_t i, int32_t n, float threshold) {
    while (i < n && !(x[i] > threshold)) ++i;
    return i;
  }

  static int32_t gather(const float* weights, int32_t n, float threshold, Candidate* list) {
    int32_t count = 0;
    for (int32_t i = 0; i < n; ++i) {
      if (weights[i] >= threshold) list[count++] = {weights[i], i};
    }
    return count;
  }
};

void sample_reference(const SampleArgs& args, const Worker& worker) {
  sample_rows<ReferenceEngine>(args, worker);
}

}  // namespace

SampleKernel sample_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return sample_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return sample_avx2;
  }
  return sample_reference;
}

size_t sample_scratch_bytes(int32_t num_valid_tokens) {
  const int64_t chunks = (static_cast<int64_t>(num_valid_tokens) + kSampleChunk - 1) / kSampleChunk;
  constexpr int64_t kBytesAToken = sizeof(float) + sizeof(Candidate);
  return static_cast<size_t>(chunks * (kSampleChunk * kBytesAToken) +
                             chunks * static_cast<int64_t>(sizeof(double)));
}

}  // namespace encore::kernels
