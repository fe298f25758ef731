// What both prefill kernels do with the rows of a warp's accumulators: mask, softmax, write.
//
// A warp holds 16 rows. Lane 4 * group + pair has two of them, `group` and `group + 8`: of every 8
// columns it has two, 2 * pair and the next, in values[4 * j] and [4 * j + 1] for the first row and
// [4 * j + 2] and [4 * j + 3] for the second. The four lanes of a group share their rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "mma.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {

// Running softmax of a lane's two rows, in units of log 2: weights are exp2(score * scale - max *
// scale). `sum` covers this lane's columns only, until finish_rows().
struct SoftmaxRows {
  // Finite, so that the scores of a row with no visible key so far, all -inf, weigh exp2(-inf) = 0.
  float max[2] = {-1e30F, -1e30F};
  float sum[2] = {0.0F, 0.0F};
};

// Hides the columns after limit[row], counted from this lane's first column.
template <int kCount>
__device__ __forceinline__ void mask_scores(float (&scores)[kCount], const int (&limit)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int column = i / 4 * 8 + i % 2;
    if (column > limit[i / 2 % 2]) scores[i] = -INFINITY;
  }
}

// Turns scores into weights, and gives what earlier weights must be multiplied by.
template <int kCount>
__device__ __forceinline__ void softmax_step(float (&scores)[kCount], SoftmaxRows& rows,
                                             float scale, float (&correction)[2]) {
  float max[2] = {rows.max[0], rows.max[1]};
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    max[i / 2 % 2] = fmaxf(max[i / 2 % 2], fmaxf(scores[i], scores[i + 1]));
  }
  float offset[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    max[row] = fmaxf(max[row], shuffle_xor<32>(max[row], 1));
    max[row] = fmaxf(max[row], shuffle_xor<32>(max[row], 2));
    correction[row] = exp2_fast((rows.max[row] - max[row]) * scale);
    rows.max[row] = max[row];
    rows.sum[row] *= correction[row];
    offset[row] = -max[row] * scale;
  }
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int row = i / 2 % 2;
    scores[i] = exp2_fast(fmaf(scores[i], scale, offset[row]));
    scores[i + 1] = exp2_fast(fmaf(scores[i + 1], scale, offset[row]));
    rows.sum[row] += scores[i] + scores[i + 1];
  }
}

template <int kCount>
__device__ __forceinline__ void scale_rows(float (&values)[kCount], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] *= factor[i / 2 % 2];
}

// Weights as the register operand of the product with the values: 4 words for every 16 keys.
template <typename T, int kCount>
__device__ __forceinline__ void pack_weights(const float (&weights)[kCount],
                                             uint32_t (&packed)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    packed[i] = pack_pair<T>(weights[2 * i], weights[2 * i + 1]);
  }
}

// Divides each row by the sum of its weights.
template <int kCount>
__device__ __forceinline__ void finish_rows(float (&values)[kCount], const SoftmaxRows& rows) {
  float factor[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float sum = rows.sum[row];
    sum += shuffle_xor<32>(sum, 1);
    sum += shuffle_xor<32>(sum, 2);
    factor[row] = 1.0F / sum;
  }
  scale_rows(values, factor);
}

// Transposes a 4x4 matrix of words over the four lanes of a group: lane i gets words[i] of all.
__device__ __forceinline__ void transpose_in_group(uint32_t (&words)[4], int pair) {
  const bool odd = (pair & 1) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t other = shuffle_xor<32>(odd ? words[i] : words[i + 1], 1);
    words[i] = odd ? other : words[i];
    words[i + 1] = odd ? words[i + 1] : other;
  }
  const bool upper = (pair & 2) != 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t other = shuffle_xor<32>(upper ? words[i] : words[i + 2], 2);
    words[i] = upper ? other : words[i];
    words[i + 2] = upper ? words[i + 2] : other;
  }
}

// Writes row `row` (0 or 1) of the lane's values, kCount * 2 columns, in pieces of 16 bytes. `to`
// is the row's first element, or null if it is not to be written; the whole warp takes part.
template <typename T, int kCount>
__device__ __forceinline__ void store_row(T* to, const float (&values)[kCount], int row, int pair) {
#pragma unroll
  for (int j = 0; j < kCount / 4; j += 4) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * (j + i) + 2 * row;
      words[i] = pack_pair<T>(values[at], values[at + 1]);
    }
    transpose_in_group(words, pair);
    if (to != nullptr) {
      *reinterpret_cast<uint4*>(to + 8 * (j + pair)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

}  // namespace encore::gpu
