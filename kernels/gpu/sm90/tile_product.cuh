// What products by tiles of 128 rows of x share: the ring of operands and the warpgroups that
// multiply.
//
// A stage of the ring holds 64 k of a tile of x and of one of w. x is the A operand of wgmma and w
// its B, both straight from shared memory: two warpgroups with 64 rows of x each, and a thread that
// keeps the ring full. Blocks of a cluster may share copies. A stage is a block's again once all
// consumers of all blocks that its copies reach have said so.
#pragma once

#include <cstdint>

#include "sm90/barrier.cuh"
#include "sm90/mma_wide.cuh"
#include "sm90/wgmma.cuh"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kTileStepK = 64;  // k a ring stage: one 128-byte swizzled row
inline constexpr int kTileRowBytes = kTileStepK * 2;
inline constexpr int kTileM = 128;
inline constexpr int kTileGroupRows = 64;  // of a warpgroup
inline constexpr int kTileGroupThreads = 128;
inline constexpr int kTileConsumers = 2 * kTileGroupThreads;
inline constexpr int kTileXBytes = kTileM * kTileRowBytes;
inline constexpr int kTileMaxStages = 8;
inline constexpr int kTileSmemBytes = 227 << 10;  // what a block may have

struct TileBarriers {
  uint64_t full[kTileMaxStages];   // the copies of a stage have landed
  uint64_t empty[kTileMaxStages];  // all blocks that this one's copies reach are done with it
};

// A ring of as many stages as fit beside `kOtherBytes`.
template <int kTileN_, int kOtherBytes>
struct TileRing {
  static constexpr int kTileN = kTileN_;  // rows of w
  static constexpr int kStageBytes = kTileXBytes + kTileN * kTileRowBytes;
  static constexpr int kFitting = (kTileSmemBytes - kOtherBytes) / kStageBytes;
  static constexpr int kStages = kFitting < kTileMaxStages ? kFitting : kTileMaxStages;
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kGroups = kTileN / 8;  // sums come in groups of 8 columns

  static_assert(kStages >= 3 && kStageBytes % 1024 == 0);
};

// The n-th use of a ring.
template <typename Ring>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == Ring::kStages) stage = 0, parity ^= 1U;
  }
};

// One thread; `sharing`: blocks that share copies.
template <typename Ring>
__device__ void init_ring(TileBarriers* barriers, int sharing) {
  for (int i = 0; i < Ring::kStages; ++i) {
    barrier_init(&barriers->full[i], 1);
    barrier_init(&barriers->empty[i], kTileConsumers / 32 * sharing);
  }
}

// A warpgroup's part of a block's products. Sums are laid out as wgmma.cuh says.
template <typename Ring>
class TileMultiplier {
 public:
  using Sums = float[4 * Ring::kGroups];

  // Copies are shared by `sharing` blocks of the cluster, from rank `first_rank` on.
  __device__ TileMultiplier(uint32_t ring, TileBarriers* barriers, int first_rank, int sharing)
      : ring_(ring),
        barriers_(barriers),
        group_(static_cast<int>(threadIdx.x) / kTileGroupThreads),
        tells_(static_cast<int>(threadIdx.x) % 32 < sharing),
        told_(first_rank + static_cast<int>(threadIdx.x) % 32) {}

  // Step 0 overwrites the sums. Its products may still run afterwards; a stage goes back when the
  // products that read it have finished, which is when those of the next step have been issued.
  __device__ __forceinline__ void multiply(Sums& sums, int step) {
    const uint32_t stage = ring_ + at_.stage * Ring::kStageBytes;
    const uint64_t a = mma_descriptor(stage + group_ * kTileGroupRows * kTileRowBytes);
    const uint64_t b = mma_descriptor(stage + kTileXBytes);
    barrier_wait(&barriers_->full[at_.stage], at_.parity);
    mma_fence();
#pragma unroll
    for (int i = 0; i < kTileStepK / 16; ++i) {  // 16 k are 32 bytes: 2 in descriptor units
      mma_wide<Ring::kTileN>(sums, a + 2 * i, b + 2 * i, step + i > 0);
    }
    mma_commit();
    mma_wait<1>();
    if (step > 0) release();
    held_ = at_.stage;
    at_.advance();
  }

  // After the last step of a tile.
  __device__ __forceinline__ void finish(Sums& sums) {
    mma_wait<0>();
    mma_pin(sums);
    release();
  }

 private:
  // Gives the stage of the step before back to the blocks whose copies fill it.
  __device__ void release() const {
    if (tells_) barrier_arrive_peer(&barriers_->empty[held_], told_);
  }

  const uint32_t ring_;
  TileBarriers* const barriers_;
  const int group_;
  const bool tells_;  // this lane tells the block `told_` of its number of free stages
  const int told_;
  int held_ = 0;  // stage of the step whose products may still run
  RingPlace<Ring> at_;
};

// Rows that a launch works on.
__device__ inline int live_rows(const int32_t* live, int maximum) {
  return live == nullptr ? maximum : min(*live, maximum);
}

}  // namespace encore::gpu
