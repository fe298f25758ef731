// Row factors of an RMS norm that a product applies to its sums, from the partial sums of squares
// that the product before left.
#pragma once

#include <cstddef>
#include <cstdint>

#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {

// The norm of a product's input; meaning of the fields as in kernels/gpu/decode_linear.h.
struct InputNorm {
  const float* sumsq;  // null: no norm, all factors are 1
  int num_sumsq;
  float eps;
};

// factors[row] for row 0 .. rows - 1, of input rows of k values. By kWarps warps, of which this is
// `warp`; a warp has kTogether rows at a time, whose reads are under way together. Sums are added
// in one order, however many rows there are.
template <int kWarps, int kTogether>
__device__ inline void make_row_factors(const InputNorm& norm, int rows, int k, float* factors,
                                        int warp) {
  constexpr int kReads = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int count = norm.sumsq == nullptr ? 0 : norm.num_sumsq;
#pragma unroll 1
  for (int first = warp * kTogether; first < rows; first += kWarps * kTogether) {
    float sums[kTogether] = {};
#pragma unroll 1
    for (int i = lane; i < count; i += 32 * kReads) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const float* row = norm.sumsq + static_cast<size_t>(min(first + j, rows - 1)) * count;
#pragma unroll
        for (int r = 0; r < kReads; ++r) sums[j] += i + r * 32 < count ? row[i + r * 32] : 0.0F;
      }
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const float mean = warp_sum<32>(sums[j]) / static_cast<float>(k);
      const float factor = norm.sumsq == nullptr ? 1.0F : rsqrtf(mean + norm.eps);
      if (lane == 0 && first + j < rows) factors[first + j] = factor;
    }
  }
}

}  // namespace encore::gpu
