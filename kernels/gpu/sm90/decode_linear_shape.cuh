// The weight-streaming product's compile-time shape, its kernel parameters and its shared memory.
//
// w is the 64-row A operand of wgmma and x the 8 to 64 columns of B, both straight from shared
// memory. A row group is the rows of w that a thread block works on together.
//
// Two forms. *Direct* (split 1): a warpgroup holds whole sums in registers and stores them; a block
// walks over several row groups. *Exchange*: `split` blocks of a cluster share k, each with a fixed
// slice; they send each other partial sums through distributed shared memory, add them in rank
// order, and a block has one row group.
#pragma once

#include <cstdint>

#include "kernels/gpu/decode_linear.h"
#include "sm90/row_factors.cuh"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kStepK = 64;    // k a ring stage: one 128-byte swizzled row
inline constexpr int kMmaRows = 64;  // rows of w a wgmma
inline constexpr int kTileBytes = kMmaRows * kStepK * 2;
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kMaxStages = 24;
inline constexpr int kMaxSplit = 4;
// One warp issues copies, the others turn partial sums of squares into row factors.
inline constexpr int kHelperThreads = 128;
inline constexpr int kScaleWarps = kHelperThreads / 32 - 1;
inline constexpr int kSmemAlignBytes = 1024;  // swizzled tiles; dynamic memory may start off it

struct DecodeParams {
  void* y;
  const bf16* bias;
  InputNorm norm;
  const bf16* norm_weight;
  bf16* x_out;
  float* sumsq_out;
  int m, n, k;
  bool store_f32;
  int split, num_row_groups;
  int k_steps;        // 64-wide steps of k a block does for a row group
  int stages;         // ring depth, in steps
  int trigger_steps;  // the next kernel is released when this many steps are left to issue
};

// A block receives its share of every tile's sums from each of the cluster's blocks: as many bytes
// as one block's sums are.
constexpr int decode_received_bytes(int row_tiles, int tokens) {
  return row_tiles * kMmaRows * tokens * static_cast<int>(sizeof(float));
}

// How consumer warpgroups divide a block's work: `sets` take turns on row groups, so that one can
// store while the other multiplies; in a set each of `warpgroups` holds `tiles` 64-row tiles.
template <int kTokens_, DecodeEpilogue kEpilogue_, bool kDirect_, int kWarpgroups_, int kTiles_,
          int kSets_>
struct DecodeShape {
  static constexpr int kTokens = kTokens_;  // m rounded up
  static constexpr DecodeEpilogue kEpilogue = kEpilogue_;
  static constexpr bool kDirect = kDirect_;
  static constexpr int kWarpgroups = kWarpgroups_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kSets = kSets_;

  static constexpr bool kSilu = kEpilogue == DecodeEpilogue::kSiluMul;
  static constexpr bool kAdd = kEpilogue == DecodeEpilogue::kAdd;
  static constexpr int kRowTiles = kWarpgroups * kTiles;
  static constexpr int kOutTiles = kSilu ? kRowTiles / 2 : kRowTiles;
  static constexpr int kBoxes = kSilu ? 2 : 1;  // copies of w a stage: gate and up are apart
  static constexpr int kSetThreads = kWarpgroups * kWarpgroupThreads;
  static constexpr int kSetWarps = kSetThreads / 32;
  static constexpr int kConsumers = kSets * kSetThreads;
  static constexpr int kThreads = kConsumers + kHelperThreads;
  // Two blocks, of this kernel and the next, share a multiprocessor where registers allow.
  static constexpr int kBlocksPerSm = kTokens == 64 && kTiles == 2 && kThreads > 256 ? 1 : 2;

  static constexpr int kWeightBytes = kRowTiles * kTileBytes;
  static constexpr int kXBytes = kTokens * kStepK * 2;
  static constexpr int kStageBytes = kWeightBytes + kXBytes;
  static constexpr int kReceivedBytes = kDirect ? 0 : decode_received_bytes(kRowTiles, kTokens);

  static_assert(!kSilu || kRowTiles % 2 == 0);
  static_assert(!kDirect || !kSilu || kTiles == 2, "a warpgroup holds gate and up");
  static_assert(kDirect || (kTiles == 1 && kSets == 1), "an exchange has one tile a warpgroup");
  static_assert(kStageBytes % kSmemAlignBytes == 0);

  __device__ static int out_n(const DecodeParams& p) { return kSilu ? p.n / 2 : p.n; }
  // Which of the stage's tiles is a warpgroup's tile t. Gate tiles come first, then up tiles.
  __device__ static int tile_of(int warpgroup, int t) {
    return kSilu && kTiles == 2 ? t * kWarpgroups + warpgroup : warpgroup * kTiles + t;
  }
};

struct DecodeBarriers {
  uint64_t full[kMaxStages];   // the copies of a stage have landed
  uint64_t empty[kMaxStages];  // all warps of a set are done with a stage
  uint64_t scale_full;         // the row factors are written
  uint64_t received;           // all partial sums for this block have come
};

// Byte offsets from a 1024-byte aligned base, where the ring is.
struct DecodeLayout {
  int received, scale, barriers, bytes;
};
__host__ __device__ inline DecodeLayout decode_layout(int stage_bytes, int stages,
                                                      int received_bytes, int tokens) {
  DecodeLayout at{};
  at.received = stages * stage_bytes;
  at.scale = at.received + received_bytes;
  at.barriers = at.scale + tokens * static_cast<int>(sizeof(float));
  at.bytes = at.barriers + static_cast<int>(sizeof(DecodeBarriers));
  return at;
}

}  // namespace encore::gpu
