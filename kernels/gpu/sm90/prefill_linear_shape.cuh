// The prefill product's compile-time shape, its kernel parameters and its order of tiles.
//
// A thread block computes tiles of 128 rows of x by kTileN rows of w: two warpgroups with 64 rows
// each, and a warp that keeps a ring of operands full. x is the A operand of wgmma and w its B,
// both straight from shared memory.
//
// A cluster of blocks works on a super tile, `row_blocks` x `column_blocks` tiles, each by `kSplit`
// blocks that share k. A block's loads of w go to all blocks of its column of tiles, those of x to
// all of its row, each loading its part: what a tile costs the L2 cache, where large products and
// few rows alike would wait, shrinks with the cluster.
//
// Source: the overlap of copies and products follows NVIDIA's CUTLASS (warp-specialised kernels).
#pragma once

#include <cstdint>

#include "kernels/gpu/prefill_linear.h"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kPrefillStepK = 64;  // k a ring stage: one 128-byte swizzled row
inline constexpr int kPrefillRowBytes = kPrefillStepK * 2;
inline constexpr int kPrefillTileM = 128;
inline constexpr int kPrefillGroupRows = 64;  // of a warpgroup
inline constexpr int kPrefillGroupThreads = 128;
inline constexpr int kPrefillConsumers = 2 * kPrefillGroupThreads;
inline constexpr int kPrefillMaxStages = 8;
inline constexpr int kPrefillXBytes = kPrefillTileM * kPrefillRowBytes;

struct PrefillBarriers {
  uint64_t full[kPrefillMaxStages];   // the copies of a stage have landed
  uint64_t empty[kPrefillMaxStages];  // all blocks that this one's copies reach are done with it
};

// kBlocksPerSm 2: half the registers and memory, so that blocks of two products (the next one's
// starting early) share a multiprocessor.
template <int kTileN_, PrefillEpilogue kEpilogue_, int kSplit_, int kBlocksPerSm_>
struct PrefillShape {
  static constexpr int kTileN = kTileN_;
  static constexpr PrefillEpilogue kEpilogue = kEpilogue_;
  static constexpr int kSplit = kSplit_;
  static constexpr int kBlocksPerSm = kBlocksPerSm_;

  static constexpr bool kSilu = kEpilogue == PrefillEpilogue::kSiluMul;
  static constexpr bool kAdd = kEpilogue == PrefillEpilogue::kAdd;
  static constexpr int kHalfBytes = kTileN / 2 * kPrefillRowBytes;  // of w; gate or up of kSiluMul
  static constexpr int kStageBytes = kPrefillXBytes + 2 * kHalfBytes;
  // What a block may have: 227 KB, or half of 228 less the 1 KB that the system takes of each.
  static constexpr int kSmemBytes = kBlocksPerSm == 1 ? 227 << 10 : 113 << 10;
  static constexpr int kFitting =
      (kSmemBytes - static_cast<int>(sizeof(PrefillBarriers))) / kStageBytes;
  static constexpr int kStages = kFitting < kPrefillMaxStages ? kFitting : kPrefillMaxStages;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kBytes = kRingBytes + static_cast<int>(sizeof(PrefillBarriers));

  // A warp copies. Alone on a multiprocessor, its block has a whole warpgroup, which leaves its
  // registers to the consumers.
  static constexpr bool kMovesRegisters = kBlocksPerSm == 1;
  static constexpr int kThreads = kPrefillConsumers + (kMovesRegisters ? kPrefillGroupThreads : 32);
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  // Sums in groups of 8 columns; of each tile every block of a split finishes kGroups.
  static constexpr int kTileGroups = kTileN / 8;
  static constexpr int kGroups = kTileGroups / kSplit;
  static constexpr int kOutGroups = kSilu ? kGroups / 2 : kGroups;
  static constexpr int kOutTileN = kSilu ? kTileN / 2 : kTileN;

  static_assert(kStages >= 3 && kHalfBytes % 1024 == 0);
  static_assert(kTileGroups % kSplit == 0 && kOutGroups % 2 == 0);
  static_assert(!kSilu || kSplit == 1);
  // Partial sums of all blocks of a split, in the memory of the ring.
  static_assert(kSplit == 1 || kGroups * kSplit * kPrefillConsumers * 16 <= kRingBytes);
};

struct PrefillParams {
  bf16* y;
  const bf16* bias;
  const int32_t* live;
  int m, n, k;
  int out_n;                      // columns of y
  int k_steps;                    // of a block
  int row_blocks, column_blocks;  // tiles of a cluster; row_blocks 1 or 2
  int num_columns;                // super tiles along n
  int num_clusters;
  int group;  // super rows that are walked together, so that w is read from the L2 cache
};

// Where a block is in its cluster.
struct PrefillPlace {
  int row, column, slice;
  __device__ PrefillPlace(const PrefillParams& p, int rank)
      : row(rank % p.row_blocks),
        column(rank / p.row_blocks % p.column_blocks),
        slice(rank / (p.row_blocks * p.column_blocks)) {}
};
__device__ inline int prefill_rank(const PrefillParams& p, int row, int column, int slice) {
  return (slice * p.column_blocks + column) * p.row_blocks + row;
}

// Super tiles in the order that a cluster works on them: columns of `group` super rows.
class PrefillWalk {
 public:
  // One super row is worked on even without a live row: then which weights come first is known
  // before the live count is.
  __device__ static bool one_row(const PrefillParams& p) {
    return p.m <= kPrefillTileM * p.row_blocks;
  }
  __device__ PrefillWalk(const PrefillParams& p, int live)
      : p_(p),
        num_rows_(one_row(p)
                      ? 1
                      : (live + kPrefillTileM * p.row_blocks - 1) / (kPrefillTileM * p.row_blocks)),
        at_(static_cast<int>(blockIdx.x) / (static_cast<int>(gridDim.x) / p.num_clusters)) {
    find();
  }
  __device__ bool done() const { return at_ >= num_rows_ * p_.num_columns; }
  __device__ void next() {
    at_ += p_.num_clusters;
    find();
  }
  // In tiles, of the cluster's first block.
  __device__ int row() const { return row_ * p_.row_blocks; }
  __device__ int column() const { return column_ * p_.column_blocks; }

 private:
  __device__ void find() {
    const int first = at_ / (p_.group * p_.num_columns) * p_.group;
    const int rows = max(1, min(p_.group, num_rows_ - first));
    const int within = at_ % (p_.group * p_.num_columns);
    row_ = first + within % rows;
    column_ = within / rows;
  }

  const PrefillParams& p_;
  const int num_rows_;
  int at_;
  int row_, column_;
};

__device__ inline int prefill_live(const PrefillParams& p) {
  return p.live == nullptr ? p.m : min(*p.live, p.m);
}

// The n-th use of the ring.
template <typename S>
struct PrefillStage {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == S::kStages) stage = 0, parity ^= 1U;
  }
};

}  // namespace encore::gpu
