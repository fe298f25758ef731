// The split product's compile-time shape and its kernel parameters.
//
// All of x is one tile; a thread block multiplies it by kTileN rows of w over a part of k. The
// blocks of a cluster are the parts of one tile of w: block r of a cluster has part r. Then they
// send each other sums through distributed shared memory: the columns of a tile belong to its parts
// in turn, and a thread of the owner receives what the same thread of each other holds, so it adds,
// in order of parts, without a look at columns or rows. What is received has a place of its own
// beside the ring, so that nobody asks whether a peer is done with its ring.
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

// The groups of 8 columns of a tile that a part owns. Parts differ by one group at most.
template <int kTileN, int kParts>
struct SplitGroups {
  __host__ __device__ static constexpr int first(int part) { return part * (kTileN / 8) / kParts; }
  static constexpr int kMost = (kTileN / 8 + kParts - 1) / kParts;
  // All threads' sums of one group.
  static constexpr int kSumBytes = kTileConsumers * static_cast<int>(sizeof(float4));
  static constexpr int kReceivedBytes = (kParts - 1) * kMost * kSumBytes;
  // What a block has in shared memory beside its ring.
  static constexpr int kOtherBytes = kReceivedBytes + static_cast<int>(sizeof(SplitBarriers));
};

template <int kTileN, int kParts_>
struct SplitShape : TileRing<kTileN, SplitGroups<kTileN, kParts_>::kOtherBytes> {
  using Groups = SplitGroups<kTileN, kParts_>;
  static constexpr int kParts = kParts_;

  static_assert(kParts <= kSplitMost);
};

// A block's shared memory.
template <typename S>
struct SplitMemory {
  unsigned char ring[S::kRingBytes];
  float4 received[S::Groups::kReceivedBytes / sizeof(float4)];
  SplitBarriers barriers;
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
