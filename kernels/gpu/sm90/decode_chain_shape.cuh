// What host and device agree on about the decode chain: how work is cut, parameters, memory.
//
// A *tile* is 64 outputs of a product: 64 rows of w, or 64 of gate and the same 64 of up. A *step*
// is what a ring stage holds: 16 KB of weights of one tile, 128 deep in k (64 for gate and up). A
// product is the list of its tiles' steps, tile by tile, cut into one equal range a thread block,
// so every multiprocessor reads the same number of bytes whatever the model's sizes. A range's part
// of a tile is a *segment*. The block with a tile's first segment finishes the tile; the others
// send it their sums. It does so at the end of its range, while they have sent theirs at the start
// of their own, except those whose whole range lies within the tile.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "sm90/decode_linear_shape.cuh"

namespace encore::gpu {

inline constexpr int kChainProducts = 4;
inline constexpr int kChainO = 0, kChainGateUp = 1, kChainDown = 2, kChainQkv = 3;
inline constexpr int kChainThreads = 2 * kWarpgroupThreads;  // multiply; copy and scale
inline constexpr int kChainScaleWarps = 2;
inline constexpr int kChainWeightBytes = 2 * kTileBytes;  // a stage's

__host__ __device__ constexpr int chain_x_bytes(int tokens) {
  return 2 * tokens * kStepK * 2;
}  // a stage's, at most
__host__ __device__ constexpr int chain_stage_bytes(int tokens) {
  return kChainWeightBytes + chain_x_bytes(tokens);
}

// In global memory, zero before the first run; a run leaves all but `epoch` as it found them.
struct ChainControl {
  uint32_t epoch;                  // runs so far
  uint32_t done;                   // blocks that have read everything here
  uint32_t ready[kChainProducts];  // finished tiles of the product before
};

struct ChainProduct {
  int tiles;
  int tile_steps;  // steps of a tile
};

struct ChainMaps {
  CUtensorMap w[kChainProducts];
  CUtensorMap x[kChainProducts];
};

struct ChainParams {
  ChainProduct product[kChainProducts];
  int num_products;
  int m, hidden_size, inter_size, qkv_size;
  int stages;
  float eps;
  const bf16* norm[2];  // what hidden is multiplied with after o, and after down
  const bf16* qkv_bias;
  bf16* hidden;
  bf16* normed;
  bf16* act;
  bf16* qkv;
  float* sumsq[2];  // [m, hidden_size / 64]: of hidden after o, and after down
  ChainControl* control;
  uint64_t* mail;  // a block's sums for another: chain_mail_words() each
};

// The first step of block `block`; that of block `blocks` is the end. The product of the two fits
// in 31 bits (checked at planning).
__host__ __device__ inline int chain_first_step(const ChainProduct& product, int block,
                                                int blocks) {
  return block * (product.tiles * product.tile_steps) / blocks;
}

// A sum and its tag are 8 bytes; up to two accumulators of 64 rows.
__host__ __device__ constexpr int chain_mail_words(int tokens) { return 2 * kMmaRows * tokens; }

struct ChainBarriers {
  uint64_t full[kMaxStages];       // a stage's weights and x have landed
  uint64_t empty[kMaxStages];      // all warps are done with a stage
  uint64_t ready[kChainProducts];  // the product's input is there
  uint64_t scale_full[2];          // the row factors are written
};

// Byte offsets in shared memory from a 1024-byte aligned base, where the ring is.
struct ChainLayout {
  int scale;     // [2][tokens] f32
  int sums;      // [2][4 warps][tokens] f32
  int barriers;  // ChainBarriers
  int epoch;
  int bytes;
};
__host__ __device__ inline ChainLayout chain_layout(int stages, int tokens) {
  ChainLayout at{};
  at.scale = stages * chain_stage_bytes(tokens);
  at.sums = at.scale + 2 * tokens * 4;
  at.barriers = at.sums + 2 * 4 * tokens * 4;
  at.epoch = at.barriers + static_cast<int>(sizeof(ChainBarriers));
  at.bytes = at.epoch + 8;
  return at;
}

}  // namespace encore::gpu
