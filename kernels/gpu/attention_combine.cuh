// What the decode kernels share: how a piece's keys are dealt out to warps, and how results add up:
// the warps of a block, the blocks of a cluster through each other's shared memory, and the pieces
// of a request in global memory, by the block that comes last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention_internal.h"
#include "pair.cuh"
#include "vendor.h"
#include "warp.cuh"
#if defined(ENCORE_GPU_CUDA)
#include "sm90/cluster.cuh"
#endif

namespace encore::gpu::decode {

#if defined(ENCORE_GPU_CUDA)
inline constexpr bool kHasClusters = true;
#else
// Elsewhere a block is alone, and none of these is called.
inline constexpr bool kHasClusters = false;
__device__ inline void cluster_arrive() {}
__device__ inline void cluster_wait() {}
__device__ inline void store_peer4(const void*, int, const float4&) {}
__device__ inline void store_peer2(const void*, int, const float2&) {}
#endif

inline constexpr int kWarps = 4;      // of a thread block
inline constexpr int kTileKeys = 16;  // that a warp takes at once; no tile crosses a page
inline constexpr int kMaxCluster = 8;
inline constexpr float kLowest = -1e30F;  // below any score; finite, so that differences are

struct DecodeArgs {
  AttentionWorkspace workspace;
  const int32_t* page_ids;
  const std::byte* pages;
  int64_t page_bytes, half_bytes, head_bytes;  // strides: page, its V, KV head
  const void* q;
  void* y;
  int64_t q_stride, y_stride;
  int32_t page_shift;
  int32_t group;          // heads of q for each KV head
  int32_t groups_per_kv;  // thread blocks for each KV head
  int32_t head_groups;
  int32_t cluster;
  int32_t slots;  // of the work list
  float scale;    // of log 2 units
};

inline DecodeArgs make_decode_args(const AttentionShape& shape, const DecodeGrid& grid,
                                   const AttentionArgs& args, const AttentionWorkspace& workspace) {
  DecodeArgs made{};
  made.workspace = workspace;
  made.page_ids = args.inputs.page_ids;
  made.pages = args.kv.data;
  made.page_bytes = shape.kv.page_bytes();
  made.half_bytes = shape.kv.half_elements() * element_bytes(shape.kv.element);
  made.head_bytes = shape.kv.head_elements() * element_bytes(shape.kv.element);
  made.q = args.q;
  made.y = args.y;
  made.q_stride = args.q_stride;
  made.y_stride = args.y_stride;
  while ((1 << made.page_shift) < shape.kv.page_size) ++made.page_shift;
  made.group = shape.num_heads / shape.kv.num_kv_heads;
  made.groups_per_kv = grid.head_groups / shape.kv.num_kv_heads;
  made.head_groups = grid.head_groups;
  made.cluster = grid.cluster;
  made.slots = grid.slots;
  made.scale = args.scale * kLog2E;
  return made;
}

// Four neighbouring dimensions of one head's result, with the maximum and the sum of weights that
// go with them.
struct Partial {
  float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
  float highest = kLowest;
  float total = 0.0F;

  __device__ void add(const float4& other, float other_highest, float other_total) {
    const float top = fmaxf(highest, other_highest);
    const float mine = exp2_fast(highest - top);
    const float theirs = exp2_fast(other_highest - top);
    sum.x = sum.x * mine + other.x * theirs;
    sum.y = sum.y * mine + other.y * theirs;
    sum.z = sum.z * mine + other.z * theirs;
    sum.w = sum.w * mine + other.w * theirs;
    total = total * mine + other_total * theirs;
    highest = top;
  }
};

// What the results of a block take in shared memory, over the ring once it is drained.
template <int kHeadDim>
struct Results {
  static constexpr int kSumStride = kHeadDim + 4;  // padded against bank conflicts
  float warp_sums[kWarps][kDecodeHeads][kSumStride];
  float2 warp_stats[kWarps][kDecodeHeads];  // maximum, total
  int arrived_last;
};

// What a block receives of its cluster's blocks, itself included, beside the ring, which it may
// still be using: of each rank, for every head, the dimensions that this block adds up.
template <int kHeadDim>
struct Received {
  float4 sums[kDecodeHeads * kHeadDim / 4];  // see at()
  float2 stats[kMaxCluster][kDecodeHeads];   // maximum, total

  // `dim`: of the `dims` that a block adds up.
  __device__ static int at(int rank, int head, int dim, int dims) {
    return ((rank * kDecodeHeads + head) * dims + dim) / 4;
  }
};

template <int kHeadDim>
__device__ inline Partial add_warps(const Results<kHeadDim>& results, int head, int dim) {
  Partial partial;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const float2 stats = results.warp_stats[warp][head];
    partial.add(*reinterpret_cast<const float4*>(&results.warp_sums[warp][head][dim]), stats.x,
                stats.y);
  }
  return partial;
}

// Where a block's results go. It serves `heads` heads from y on (head_dim apart), and of them the
// dimensions from first_dim, num_dims of them (all, unless in a cluster).
template <typename T, int kHeadDim, int kThreads>
struct Output {
  T* y;
  float* sums;                      // the piece's partials [heads, head_dim] of this group of heads
  float2* stats;                    // and their [heads], this rank's
  int64_t piece_sums, piece_stats;  // strides from piece to piece
  int heads;
  int first_dim;
  int num_dims;

  // f(head, dim) for every fourth dimension, shared out among the threads.
  template <typename F>
  __device__ void for_each(F f) const {
    const int quads = num_dims / 4;
#pragma unroll 1
    for (int i = threadIdx.x; i < heads * quads; i += kThreads)
      f(i / quads, first_dim + i % quads * 4);
  }
  __device__ void store(int head, int dim, const Partial& partial) const {
    const float inverse = partial.total > 0.0F ? 1.0F / partial.total : 0.0F;
    uint2 packed;
    packed.x = pack_pair<T>(partial.sum.x * inverse, partial.sum.y * inverse);
    packed.y = pack_pair<T>(partial.sum.z * inverse, partial.sum.w * inverse);
    *reinterpret_cast<uint2*>(y + head * kHeadDim + dim) = packed;
  }
  __device__ void store_partial(int head, int dim, const Partial& partial) const {
    *reinterpret_cast<float4*>(sums + head * kHeadDim + dim) = partial.sum;
    if (dim == first_dim) stats[head] = make_float2(partial.highest, partial.total);
  }
};

// Whether this block is the last of the request's pieces to arrive; it then sees all their results.
// `last`: in shared memory.
__device__ inline bool arrives_last(int* last, int32_t* counter, int num_pieces) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    *last = atomicAdd(counter, 1) == num_pieces - 1 ? 1 : 0;
    if (*last != 0) *counter = 0;  // for the next layer
  }
  __syncthreads();
  if (*last != 0) __threadfence();
  return *last != 0;
}

// What another block wrote, past the first-level cache.
template <typename T>
__device__ inline T load_fresh(const T* from) {
#if defined(ENCORE_GPU_CUDA)
  return __ldcg(from);
#else
  return *from;  // a fence of this block, or its start, has emptied that cache
#endif
}

__device__ inline DecodePiece load_piece(const DecodeArgs& args, int32_t slot) {
  static_assert(sizeof(DecodePiece) == 2 * sizeof(int4));
  const auto* words = reinterpret_cast<const int4*>(args.workspace.pieces + slot);
  const int4 a = load_fresh(words);
  const int4 b = load_fresh(words + 1);
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}

template <typename T, int kHeadDim, int kThreads>
__device__ inline void add_pieces(const Output<T, kHeadDim, kThreads>& out,
                                  const DecodePiece& piece) {
  const float* sums = out.sums - (piece.partial - piece.first_partial) * out.piece_sums;
  const float2* stats = out.stats - (piece.partial - piece.first_partial) * out.piece_stats;
  out.for_each([&](int head, int dim) {
    Partial partial;
#pragma unroll 2
    for (int i = 0; i < piece.num_pieces; ++i) {
      const float2 s = load_fresh(stats + i * out.piece_stats + head);
      partial.add(load_fresh(reinterpret_cast<const float4*>(sums + i * out.piece_sums +
                                                             head * kHeadDim + dim)),
                  s.x, s.y);
    }
    out.store(head, dim, partial);
  });
}

// Each block sends every other what its warps have found of that one's dimensions. One barrier of
// the cluster is pending when this is called; what was sent is there once it has ended, and what is
// read of it then is the block's own memory.
template <int kHeadDim, int kThreads>
__device__ inline void exchange(const Results<kHeadDim>& results, Received<kHeadDim>& received,
                                int cluster, int rank, int heads) {
  const int dims = kHeadDim / cluster;
  cluster_wait();
#pragma unroll 1
  for (int i = threadIdx.x; i < heads * (kHeadDim / 4); i += kThreads) {
    const int head = i / (kHeadDim / 4);
    const int dim = i % (kHeadDim / 4) * 4;
    const int owner = dim / dims;
    const Partial partial = add_warps(results, head, dim);
    store_peer4(&received.sums[received.at(rank, head, dim % dims, dims)], owner, partial.sum);
    if (dim % dims == 0)
      store_peer2(&received.stats[rank][head], owner, make_float2(partial.highest, partial.total));
  }
  cluster_arrive();
  cluster_wait();
}

// In order of ranks.
template <int kHeadDim>
__device__ inline Partial add_blocks(const Received<kHeadDim>& received, int cluster, int head,
                                     int dim) {
  const int dims = kHeadDim / cluster;
  Partial partial;
#pragma unroll 2
  for (int rank = 0; rank < cluster; ++rank) {
    const float2 stats = received.stats[rank][head];
    partial.add(received.sums[received.at(rank, head, dim % dims, dims)], stats.x, stats.y);
  }
  return partial;
}

// Adds up what the warps left in `results`, and the cluster, and the pieces; writes y. Where blocks
// form clusters, a barrier of the cluster is pending from the kernel's start on, and `more` says
// that this block has another piece after this one. `received`: null where they do not.
template <typename T, int kHeadDim, int kThreads>
__device__ inline void finish(Results<kHeadDim>& results, Received<kHeadDim>* received,
                              const DecodeArgs& args, const DecodePiece& piece,
                              const Output<T, kHeadDim, kThreads>& out, int32_t* counter,
                              bool more) {
  const bool in_cluster = kHasClusters && args.cluster > 1;
  if constexpr (kHasClusters) {
    if (in_cluster) {
      exchange<kHeadDim, kThreads>(results, *received, args.cluster, out.first_dim / out.num_dims,
                                   out.heads);
    }
  }
  out.for_each([&](int head, int dim) {
    const Partial partial =
        in_cluster ? add_blocks(*received, args.cluster, head, dim) : add_warps(results, head, dim);
    if (piece.num_pieces == 1) {
      out.store(head, dim, partial);
    } else {
      out.store_partial(head, dim, partial);
    }
  });
  if constexpr (kHasClusters) {
    if (in_cluster && more) cluster_arrive();
  }
  if (piece.num_pieces > 1 && arrives_last(&results.arrived_last, counter, piece.num_pieces)) {
    add_pieces(out, piece);
  }
}

// The warp's tiles of the block's keys: tile i is keys first_key + 16 * (warp + 4 * i).
struct WarpTiles {
  int first_key;  // of the warp's first tile
  int end_key;
  int count;

  __device__ int key(int i) const { return first_key + i * kWarps * kTileKeys; }
};

// This block's share of the piece's tiles, and this warp's of those.
__device__ inline WarpTiles share_tiles(const DecodePiece& piece, int rank, int cluster, int warp) {
  const int all = (piece.end_key - piece.first_key + kTileKeys - 1) / kTileKeys;
  const int first = all * rank / cluster;
  const int end = all * (rank + 1) / cluster;
  WarpTiles tiles;
  tiles.first_key = piece.first_key + (first + warp) * kTileKeys;
  tiles.end_key = piece.end_key;
  tiles.count = max((end - first - warp + kWarps - 1) / kWarps, 0);
  return tiles;
}

// Page numbers of the warp's tiles, W at a time, one a lane; the next W are under way.
template <int W>
class PageCursor {
 public:
  __device__ PageCursor(const int32_t* pages, int shift, const WarpTiles& tiles, int lane)
      : pages_(pages), shift_(shift), lane_(lane) {
    current_ = fetch(tiles, lane);
    next_ = fetch(tiles, W + lane);
  }
  // Of tile i; called for i = 0, 1, 2, ...
  __device__ int page(const WarpTiles& tiles, int i) {
    if (i % W == 0 && i > 0) {
      current_ = next_;
      next_ = fetch(tiles, i + W + lane_);
    }
    return shuffle<W>(current_, i % W);
  }

 private:
  __device__ int fetch(const WarpTiles& tiles, int i) const {
    return i < tiles.count ? load_fresh(pages_ + (tiles.key(i) >> shift_)) : 0;
  }

  const int32_t* pages_;
  int shift_;
  int lane_;
  int current_;
  int next_;
};

// What blockIdx.x stands for: a rank in a cluster, and heads of q that share a KV head.
struct HeadGroup {
  __device__ explicit HeadGroup(const DecodeArgs& args) {
    rank = static_cast<int>(blockIdx.x) % args.cluster;
    index = static_cast<int>(blockIdx.x) / args.cluster;
    kv_head = index / args.groups_per_kv;
    const int first_of_group = index % args.groups_per_kv * kDecodeHeads;
    head = kv_head * args.group + first_of_group;
    heads = min(args.group - first_of_group, kDecodeHeads);
  }
  int rank;
  int index;
  int kv_head;
  int head;  // the first
  int heads;
};

template <typename T, int kHeadDim, int kThreads>
__device__ inline Output<T, kHeadDim, kThreads> output_of(const DecodeArgs& args,
                                                          const DecodePiece& piece,
                                                          const HeadGroup& group) {
  Output<T, kHeadDim, kThreads> out;
  out.y = static_cast<T*>(args.y) + piece.q_row * args.y_stride + group.head * kHeadDim;
  out.piece_sums = int64_t{args.head_groups} * kDecodeHeads * kHeadDim;
  out.piece_stats = int64_t{args.head_groups} * args.cluster * kDecodeHeads;
  out.sums = args.workspace.partial_sums + piece.partial * out.piece_sums +
             int64_t{group.index} * kDecodeHeads * kHeadDim;
  out.stats = reinterpret_cast<float2*>(args.workspace.partial_stats) +
              piece.partial * out.piece_stats + int64_t{blockIdx.x} * kDecodeHeads;
  out.heads = group.heads;
  out.num_dims = kHeadDim / args.cluster;
  out.first_dim = group.rank * out.num_dims;
  return out;
}

// Counts the pieces of this request that blocks like this one have finished.
__device__ inline int32_t* counter_of(const DecodeArgs& args, const DecodePiece& piece) {
  return args.workspace.counters + piece.request * args.head_groups * args.cluster + blockIdx.x;
}

}  // namespace encore::gpu::decode
