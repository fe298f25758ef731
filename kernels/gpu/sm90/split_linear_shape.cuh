// The split product's compile-time shape and its kernel parameters.
//
// All of x is one tile; a thread block multiplies it by kTileN rows of w over a part of k. The
// blocks of a cluster are the parts of one tile of w: block r of a cluster has part r. Then they
// send each other sums through distributed shared memory, where the ring was: the columns of a tile
// belong to its parts in turn, and a thread of the owner receives what the same thread of each
// other holds, so it adds, in order of parts, without a look at columns or rows.
//
// At 128 rows a tile of x is as many bytes as 128 rows of w, and there is a limit to what a
// multiprocessor takes in, about 90 GB/s on an H200. Tiles of 64 rows of w stay just above what
// memory gives; wider ones would need k in more parts, larger clusters, which find fewer places.
#pragma once

#include "kernels/gpu/split_linear.h"
#include "sm90/tile_product.cuh"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kSplitMost = 4;  // parts of k
inline constexpr int kSplitThreads = kTileConsumers + 32;

struct SplitBarriers : TileBarriers {
  uint64_t received;  // all sums for this block have come
};

template <int kTileN, int kParts_>
struct SplitShape : TileRing<kTileN, sizeof(SplitBarriers)> {
  using Ring = TileRing<kTileN, sizeof(SplitBarriers)>;
  static constexpr int kParts = kParts_;
  static constexpr int kBytes = Ring::kRingBytes + static_cast<int>(sizeof(SplitBarriers));

  // Of the groups of columns, the first that belongs to a part. Parts differ by one group at most.
  __host__ __device__ static constexpr int first_group(int part) {
    return part * Ring::kGroups / kParts;
  }
  static constexpr int kMostGroups = (Ring::kGroups + kParts - 1) / kParts;  // of a part
  // A thread's sums of one group.
  static constexpr int kSumBytes = kTileConsumers * static_cast<int>(sizeof(float4));

  static_assert(kParts * kMostGroups * kSumBytes <= Ring::kRingBytes);
  static_assert(kParts <= kSplitMost);
};

struct SplitParams {
  bf16* y;
  const bf16* bias;
  const int32_t* live;
  int m, n;
  int k_steps;  // of all parts
  bool accumulate;
};

// A block's place.
struct SplitPlace {
  int part;  // of k; the block's rank
  int tile;  // of w
  int first_step;
  int num_steps;

  __device__ SplitPlace(const SplitParams& p, int rank, int parts)
      : part(rank),
        tile(static_cast<int>(blockIdx.x) / parts),
        first_step(part * p.k_steps / parts),
        num_steps((part + 1) * p.k_steps / parts - first_step) {}
};

}  // namespace encore::gpu
