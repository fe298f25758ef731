// How decode attention adds up: what a warp has found, the warps of a block, the blocks of a
// cluster through each other's shared memory, and the pieces of a request in global memory, by the
// block that comes last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention_internal.h"
#include "mma.cuh"
#include "vendor.h"
#if defined(ENCORE_GPU_CUDA)
#include "sm90/cluster.cuh"
#endif

namespace encore::gpu::decode {

inline constexpr int kLanes = 32;
inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * kLanes;
inline constexpr int kTileKeys = 16;  // no tile crosses a page
inline constexpr int kMaxCluster = 8;
inline constexpr float kLowest = -1e30F;  // below any score; finite, so that differences are

template <int kHeadDim>
struct Tiling {
  static constexpr int kChunks = kHeadDim / 8;  // of 16 bytes, in a row
  // Rows of 8 or 16 chunks: chunk c of row r lies at place c ^ (r % 8), and the eight rows of a
  // matrix fall into different banks.
  static constexpr int kRowBytes = kHeadDim == 64 ? 128 : 256;
  static constexpr int kTileBytes = kTileKeys * kRowBytes;  // of K; V's follows
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kStages = kHeadDim == 64 ? 6 : 3;  // 24 KB a warp: two blocks fit
  static constexpr int kSharedBytes = kWarps * kStages * kStageBytes;
  static constexpr int kCopies = kChunks * kTileKeys / kLanes;  // of a lane, for K
  // Results [heads, head_dim] f32 in shared memory, padded against bank conflicts.
  static constexpr int kSumStride = kHeadDim + 4;
};

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

// What a warp has found. A lane holds two heads: 2 * (lane % 4) and the next one.
template <int kHeadDim>
struct WarpState {
  float sums[kHeadDim / 16][4];  // O^T fragments
  float highest[2];
  float total[2];
};

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
  float warp_sums[kWarps][kDecodeHeads][Tiling<kHeadDim>::kSumStride];
  float2 warp_stats[kWarps][kDecodeHeads];  // maximum, total
  float block_sums[kDecodeHeads][Tiling<kHeadDim>::kSumStride];
  float2 block_stats[kDecodeHeads];
};

template <int kHeadDim>
__device__ inline void store_warp(Results<kHeadDim>& results, WarpState<kHeadDim>& state, int warp,
                                  int lane) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int mask = 4; mask < kLanes; mask *= 2)
      state.total[i] += __shfl_xor_sync(0xffffffffU, state.total[i], mask);
  }
  const int head = lane % 4 * 2;
  const int dim = lane / 4;
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      results.warp_sums[warp][head + j % 2][i * 16 + dim + j / 2 * 8] = state.sums[i][j];
  }
  if (lane < 4) {
    results.warp_stats[warp][head] = make_float2(state.highest[0], state.total[0]);
    results.warp_stats[warp][head + 1] = make_float2(state.highest[1], state.total[1]);
  }
}

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

#if defined(ENCORE_GPU_CUDA)
// The blocks' results of a cluster; all reads are issued before the first sum.
template <int kHeadDim>
__device__ inline Partial add_blocks(const Results<kHeadDim>& results, int cluster, int head,
                                     int dim) {
  float4 sums[kMaxCluster];
  float2 stats[kMaxCluster];
#pragma unroll
  for (int rank = 0; rank < kMaxCluster; ++rank) {
    if (rank >= cluster) continue;
    sums[rank] = load_peer4(&results.block_sums[head][dim], rank);
    stats[rank] = load_peer2(&results.block_stats[head], rank);
  }
  Partial partial;
#pragma unroll
  for (int rank = 0; rank < kMaxCluster; ++rank) {
    if (rank < cluster) partial.add(sums[rank], stats[rank].x, stats[rank].y);
  }
  return partial;
}
#endif

// Where a block's results go. It serves `heads` heads from y on (head_dim apart), and of them the
// dimensions from first_dim, num_dims of them (all, unless in a cluster).
template <typename T, int kHeadDim>
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
__device__ inline bool arrives_last(int32_t* counter, int num_pieces) {
  __shared__ int last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) == num_pieces - 1 ? 1 : 0;
    if (last != 0) *counter = 0;  // for the next layer
  }
  __syncthreads();
  if (last != 0) __threadfence();
  return last != 0;
}

template <typename T, int kHeadDim>
__device__ inline void add_pieces(const Output<T, kHeadDim>& out, const DecodePiece& piece) {
  const float* sums = out.sums - (piece.partial - piece.first_partial) * out.piece_sums;
  const float2* stats = out.stats - (piece.partial - piece.first_partial) * out.piece_stats;
  out.for_each([&](int head, int dim) {
    Partial partial;
#pragma unroll 4
    for (int i = 0; i < piece.num_pieces; ++i) {
      const float2 s = __ldcg(stats + i * out.piece_stats + head);
      partial.add(__ldcg(reinterpret_cast<const float4*>(sums + i * out.piece_sums +
                                                         head * kHeadDim + dim)),
                  s.x, s.y);
    }
    out.store(head, dim, partial);
  });
}

// Adds up what the warps left in `results`, and the cluster, and the pieces; writes y.
template <typename T, int kHeadDim>
__device__ inline void finish(Results<kHeadDim>& results, const DecodeArgs& args,
                              const DecodePiece& piece, const Output<T, kHeadDim>& out,
                              int32_t* counter) {
  const auto put = [&](int head, int dim, const Partial& partial) {
    if (piece.num_pieces == 1) {
      out.store(head, dim, partial);
    } else {
      out.store_partial(head, dim, partial);
    }
  };
  if (args.cluster == 1) {
    out.for_each([&](int head, int dim) { put(head, dim, add_warps(results, head, dim)); });
  } else {
#if defined(ENCORE_GPU_CUDA)
    for (int i = threadIdx.x; i < out.heads * (kHeadDim / 4); i += kThreads) {
      const int head = i / (kHeadDim / 4);
      const int dim = i % (kHeadDim / 4) * 4;
      const Partial partial = add_warps(results, head, dim);
      *reinterpret_cast<float4*>(&results.block_sums[head][dim]) = partial.sum;
      if (dim == 0) results.block_stats[head] = make_float2(partial.highest, partial.total);
    }
    cluster_arrive();
    cluster_wait();
    out.for_each(
        [&](int head, int dim) { put(head, dim, add_blocks(results, args.cluster, head, dim)); });
    cluster_arrive();  // this block reads no more of the others
#endif
  }
  if (piece.num_pieces > 1 && arrives_last(counter, piece.num_pieces)) add_pieces(out, piece);
#if defined(ENCORE_GPU_CUDA)
  if (args.cluster > 1) cluster_wait();
#endif
}

}  // namespace encore::gpu::decode
