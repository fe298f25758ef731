// What the sampler's kernels share: how a row is cut, ordered and read.
//
// A row is cut into chunks of 256 tokens. The scan kernel leaves each chunk's highest logit, so
// that whatever looks for the few heavy tokens of a row skips nearly all of it.
#pragma once

#include "kernels/gpu/sample.h"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {

inline constexpr int kChunk = 256;  // tokens
template <int W>
inline constexpr int kPerLane = kChunk / W;
inline constexpr int32_t kMaxChunks = 2048;
inline constexpr int32_t kBins = 2048;     // of a row's tally
inline constexpr int32_t kMaxPieces = 32;  // that a row is tallied in
inline constexpr float kGreedyTemperature = 1e-4F;

#define ENCORE_GPU_INFINITY __int_as_float(0x7F800000)

__host__ __device__ inline int32_t chunks_of(int32_t tokens) {
  return (tokens + kChunk - 1) / kChunk;
}

// Number and weight of a row's tokens in bins of logits (sample_tally.cuh).
struct RowTally {
  unsigned long long weights[kBins];  // as the device's 64-bit addition has it
  uint32_t counts[kBins];
  uint32_t pieces_done;
};

// Blocks that tally a row: together enough to fill a GPU, each with a chunk a warp or more.
__host__ __device__ inline int32_t pieces_of(int32_t max_rows, int32_t vocab_size) {
  constexpr int32_t kBlocks = 256;
  constexpr int32_t kLeastChunks = 16;
  const int32_t wanted = kBlocks / max_rows;
  const int32_t possible = (chunks_of(vocab_size) + kLeastChunks - 1) / kLeastChunks;
  const int32_t pieces = wanted < possible ? wanted : possible;
  return pieces < 1 ? 1 : pieces < kMaxPieces ? pieces : kMaxPieces;
}

// Per row: four arrays, one value a chunk; the row's logits with bias and penalties, if it has any;
// a tally, of rows that are filtered. A chunk that holds a NaN has the maximum +infinity.
struct SampleWorkspace {
  int32_t chunks;     // of a row of vocab_size
  int32_t pieces;     // of a row: pieces_of()
  RowTally* tallies;  // [rows], cleared by the scan
  uint64_t* above;    // [rows, pieces, kBins + 1] a piece's weight in the bins before each
  float* raw_max;     // [rows, chunks] highest logit
  float* raw_sum;     // [rows, chunks] sum of exp(logit - raw_max); rows with log-probabilities
  float* edited_max;  // [rows, chunks] after bias and penalties; rows that have any
  float* draw_sum;  // [rows, chunks] sum of exp((logit - max) / temperature); rows drawn at random
  float* edited;    // [rows, vocab_size]
};

// Order of logits as order of unsigned integers; -0 is 0.
__device__ inline uint32_t key_of(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline float value_of(uint32_t key) {
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

// The key of the lowest logit above -infinity.
inline constexpr uint32_t kLowestKey = 0x00800000U;

inline constexpr float kWeightOne = 17592186044416.0F;  // 2^44

// Logits of a row, by chunks.
struct RowView {
  const float* x;
  const float* chunk_max;
  int32_t tokens;
  float highest;
  float inverse_temperature;

  // exp((value - highest) * inverse_temperature) as a whole number of 2^-44, so that sums are the
  // same in any order. 2^19 tokens as heavy as the highest fit.
  __device__ uint64_t weight(float value) const {
    if (value == -ENCORE_GPU_INFINITY) return 0;
    return static_cast<uint64_t>(expf((value - highest) * inverse_temperature) * kWeightOne);
  }
  // The weight of a chunk whose sum of exp((x - chunk_highest) * inverse_temperature) is `sum`.
  __device__ uint64_t chunk_weight(float chunk_highest, float sum) const {
    if (chunk_highest == -ENCORE_GPU_INFINITY) return 0;
    return static_cast<uint64_t>(expf((chunk_highest - highest) * inverse_temperature) * sum *
                                 kWeightOne);
  }
};

// Token `i * W + lane` of a chunk is values[i] of that lane; -infinity past `tokens`.
template <int W>
__device__ inline void load_chunk(const float* x, int32_t tokens, int32_t chunk,
                                  float (&values)[kPerLane<W>]) {
  const int32_t first = chunk * kChunk + static_cast<int32_t>(threadIdx.x % W);
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {
    const int32_t token = first + i * W;
    values[i] = token < tokens ? x[token] : -ENCORE_GPU_INFINITY;
  }
}

__device__ inline bool has_penalty(const RowSampling& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}
__device__ inline bool row_is_edited(const SampleArgs& args, int32_t row, const RowSampling& p) {
  if (args.bias_start != nullptr && args.bias_start[row] < args.bias_start[row + 1]) return true;
  return has_penalty(p);
}
__device__ inline bool row_is_greedy(const RowSampling& p) {
  return !(p.temperature > kGreedyTemperature);
}

// Whether some tokens may not be drawn. The row is then tallied.
__device__ inline bool row_is_filtered(const RowSampling& p, int32_t tokens) {
  return !row_is_greedy(p) &&
         (p.min_p > 0.0F || p.top_p < 1.0F || (p.top_k > 0 && p.top_k < tokens));
}

// The uniform number in [0, 1) of a stream's position: the first 53 bits of Philox 4x32-10.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
__device__ inline double uniform_of(uint64_t seed, int64_t position) {
  const auto place = static_cast<uint64_t>(position);
  uint32_t counter[4] = {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), 0, 0};
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ULL * counter[0];
    const uint64_t b = 0xCD9E8D57ULL * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(a);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const uint64_t bits = counter[0] | static_cast<uint64_t>(counter[1]) << 32;
  return static_cast<double>(bits >> 11) * (1.0 / 9007199254740992.0);
}

}  // namespace encore::gpu
