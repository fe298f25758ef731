// The gated product's compile-time shape, its kernel parameters and its order of tiles.
//
// A thread block computes tiles of 128 rows of x by kTileN rows of w, half of them from gate and
// half from up, so that a thread holds both sums of an output: two warpgroups with 64 rows each,
// and a warp that keeps a ring of operands full. x is the A operand of wgmma and w its B, both
// straight from shared memory.
//
// Blocks come alone or in clusters of two, one above the other: each loads half of the tile of w
// that both multiply by, which halves what it costs the L2 cache.
//
// Source: the overlap of copies and products follows NVIDIA's CUTLASS (warp-specialised kernels).
#pragma once

#include <cstdint>

#include "kernels/gpu/gated_linear.h"
#include "sm90/tile_product.cuh"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kGatedMinK = 512;  // a tile's results are made in slices, one a step
inline constexpr int kGatedThreads = kTileConsumers + kTileGroupThreads;

template <int kTileN>
struct GatedShape : TileRing<kTileN, sizeof(TileBarriers)> {
  using Ring = TileRing<kTileN, sizeof(TileBarriers)>;
  static constexpr int kOutTileN = kTileN / 2;
  static constexpr int kHalfBytes = kOutTileN * kTileRowBytes;  // gate or up
  static constexpr int kBytes = Ring::kRingBytes + static_cast<int>(sizeof(TileBarriers));

  // The copying warp's warpgroup leaves its registers to the consumers.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  static constexpr int kOutGroups = Ring::kGroups / 2;

  static_assert(kHalfBytes % 1024 == 0);
  static_assert(kOutGroups % 2 == 0);
};

struct GatedParams {
  bf16* y;
  const bf16* bias;
  const int32_t* live;
  int m;
  int out_n;        // columns of y
  int k_steps;      // of a tile
  int row_blocks;   // of a cluster: 1 or 2
  int num_columns;  // of tiles
  int num_clusters;
  int group;  // super rows (of row_blocks tiles) walked together, so that w is found in the L2
              // cache
};

// Super tiles, row_blocks high, in the order that a cluster works on them: columns of `group` super
// rows.
class GatedWalk {
 public:
  // One super row is worked on even without a live row: then which weights come first is known
  // before the live count is.
  __device__ static bool one_row(const GatedParams& p) { return p.m <= kTileM * p.row_blocks; }
  __device__ GatedWalk(const GatedParams& p, int live)
      : p_(p),
        num_rows_(one_row(p) ? 1 : (live + kTileM * p.row_blocks - 1) / (kTileM * p.row_blocks)),
        at_(static_cast<int>(blockIdx.x) / p.row_blocks) {
    find();
  }
  __device__ bool done() const { return at_ >= num_rows_ * p_.num_columns; }
  __device__ void next() {
    at_ += p_.num_clusters;
    find();
  }
  // In tiles, of the cluster's first block.
  __device__ int row() const { return row_ * p_.row_blocks; }
  __device__ int column() const { return column_; }

 private:
  __device__ void find() {
    const int first = at_ / (p_.group * p_.num_columns) * p_.group;
    const int rows = max(1, min(p_.group, num_rows_ - first));
    const int within = at_ % (p_.group * p_.num_columns);
    row_ = first + within % rows;
    column_ = within / rows;
  }

  const GatedParams& p_;
  const int num_rows_;
  int at_;
  int row_, column_;
};

}  // namespace encore::gpu
