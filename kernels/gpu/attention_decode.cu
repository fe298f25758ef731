// Decode attention: one query row a request against its whole context, in pieces (split KV).
//
// A thread block takes one piece, or its share of one where blocks form clusters, for up to eight
// heads of q that share a KV head. Its four warps take tiles of 16 keys in turn, each with its own
// ring of asynchronous copies, so that nothing but the warp's own pace orders them. Products are
// transposed, so that the few heads are the narrow side of the matrix instruction:
//   S^T [16 keys, 8 heads] = K q^T,   O^T [head_dim, 8 heads] += V^T P^T
// Softmax is online, in f32. At the end the warps' results are added in shared memory, the blocks'
// of a cluster through each other's shared memory, and the pieces' in global memory by the block
// that comes last.
#include <algorithm>

#include "attention_internal.h"
#include "launch.cuh"
#include "mma.cuh"
#include "vendor.h"
#if defined(ENCORE_GPU_CUDA)
#include "sm90/cluster.cuh"
#endif

namespace encore::gpu {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kLanes;
constexpr int kTileKeys = 16;  // no tile crosses a page
constexpr int kMaxCluster = 8;
constexpr float kLowest = -1e30F;  // below any score; finite, so that differences are

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

__device__ inline int place_in_tile(int row_bytes, int row, int chunk) {
  return row * row_bytes + ((chunk ^ (row & 7)) << 4);
}

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
  float scale;  // of log 2 units
};

// The warp's tiles of the block's keys: tile i is keys first_key + 16 * (warp + 4 * i).
struct WarpTiles {
  int first_key;  // of the warp's first tile
  int end_key;
  int count;

  __device__ int key(int i) const { return first_key + i * kWarps * kTileKeys; }
};

// Page numbers of the warp's tiles, 32 at a time, one a lane; the next 32 are under way.
class PageCursor {
 public:
  __device__ PageCursor(const int32_t* pages, int shift, const WarpTiles& tiles, int lane)
      : pages_(pages), shift_(shift), lane_(lane) {
    current_ = fetch(tiles, lane);
    next_ = fetch(tiles, kLanes + lane);
  }
  // Of tile i; called for i = 0, 1, 2, ...
  __device__ int page(const WarpTiles& tiles, int i) {
    if (i % kLanes == 0 && i > 0) {
      current_ = next_;
      next_ = fetch(tiles, i + kLanes + lane_);
    }
    return __shfl_sync(0xffffffffU, current_, i % kLanes);
  }

 private:
  __device__ int fetch(const WarpTiles& tiles, int i) const {
    return i < tiles.count ? pages_[tiles.key(i) >> shift_] : 0;
  }

  const int32_t* pages_;
  int shift_;
  int lane_;
  int current_;
  int next_;
};

// Copies a tile; rows from `valid_rows` on become zeros, whatever the page holds there.
template <int kHeadDim>
__device__ inline void copy_tile(SharedAddress stage, const std::byte* keys, int64_t half_bytes,
                                 int valid_rows, int lane) {
  using Tile = Tiling<kHeadDim>;
#pragma unroll
  for (int i = 0; i < Tile::kCopies; ++i) {
    const int chunk = i * kLanes + lane;
    const int row = chunk / Tile::kChunks;
    const SharedAddress to = stage + place_in_tile(Tile::kRowBytes, row, chunk % Tile::kChunks);
    copy16_async(to, keys + chunk * 16, row < valid_rows);
    copy16_async(to + Tile::kTileBytes, keys + half_bytes + chunk * 16, row < valid_rows);
  }
}

// What a warp has found. A lane holds two heads: 2 * (lane % 4) and the next one.
template <int kHeadDim>
struct WarpState {
  float sums[kHeadDim / 16][4];  // O^T fragments
  float highest[2];
  float total[2];
};

template <typename T, int kHeadDim>
__device__ inline void load_query(uint32_t (&query)[kHeadDim / 16][2], const T* q, int heads,
                                  int lane) {
  const int head = lane / 4;
  const T* row = q + head * kHeadDim + lane % 4 * 2;
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    query[k][0] = head < heads ? *reinterpret_cast<const uint32_t*>(row + k * 16) : 0U;
    query[k][1] = head < heads ? *reinterpret_cast<const uint32_t*>(row + k * 16 + 8) : 0U;
  }
}

// Scores of a tile: S^T fragments, scaled; keys from `valid_rows` on get kLowest.
template <typename T, int kHeadDim>
__device__ inline void score_tile(float (&scores)[4], const uint32_t (&query)[kHeadDim / 16][2],
                                  SharedAddress keys, int valid_rows, float scale, int lane) {
  float even[4] = {};  // two sums, so that instructions need not wait for each other
  float odd[4] = {};
#pragma unroll
  for (int k = 0; k < kHeadDim / 16; ++k) {
    uint32_t a[4];
    load_matrices(a,
                  keys + place_in_tile(Tiling<kHeadDim>::kRowBytes, lane % 16, k * 2 + lane / 16));
    mma_16x8x16<T>(k % 2 == 0 ? even : odd, a, query[k][0], query[k][1]);
  }
  const int row = lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    scores[i] = row + i / 2 * 8 < valid_rows ? (even[i] + odd[i]) * scale : kLowest;
}

// Maximum over the lanes that hold the same heads.
__device__ inline float max_over_keys(float value) {
#pragma unroll
  for (int mask = 4; mask < kLanes; mask *= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, mask));
  return value;
}

template <typename T, int kHeadDim>
__device__ inline void add_tile(WarpState<kHeadDim>& state, const float (&scores)[4],
                                SharedAddress values, int lane) {
  float fade[2];
  float weights[4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float highest = fmaxf(state.highest[i], max_over_keys(fmaxf(scores[i], scores[i + 2])));
    fade[i] = exp2_fast(state.highest[i] - highest);
    weights[i] = exp2_fast(scores[i] - highest);
    weights[i + 2] = exp2_fast(scores[i + 2] - highest);
    state.highest[i] = highest;
    state.total[i] = state.total[i] * fade[i] + weights[i] + weights[i + 2];
  }
  // P^T as the narrow operand: keys 0..7 and 8..15, each lane with its column (a head).
  const uint32_t low = transpose_matrix(pack_pair<T>(weights[0], weights[1]));
  const uint32_t high = transpose_matrix(pack_pair<T>(weights[2], weights[3]));
  const int row = lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    uint32_t a[4];
    load_matrices_transposed(
        a, values + place_in_tile(Tiling<kHeadDim>::kRowBytes, row, i * 2 + lane / 8 % 2));
#pragma unroll
    for (int j = 0; j < 4; ++j) state.sums[i][j] *= fade[j % 2];
    mma_16x8x16<T>(state.sums[i], a, low, high);
  }
}

// Runs the warp's ring over its tiles. `keys` is the KV head's K of page 0.
template <typename T, int kHeadDim>
__device__ inline void stream_tiles(WarpState<kHeadDim>& state, const DecodeArgs& args,
                                    const std::byte* keys, const int32_t* page_ids,
                                    const WarpTiles& tiles, const T* q, int heads,
                                    SharedAddress ring, int lane) {
  using Tile = Tiling<kHeadDim>;
  PageCursor cursor(page_ids, args.page_shift, tiles, lane);
  uint32_t query[kHeadDim / 16][2];
  load_query<T, kHeadDim>(query, q, heads, lane);
  const int page_mask = (1 << args.page_shift) - 1;
  const auto copy = [&](int i, int stage) {
    if (i < tiles.count) {
      const int key = tiles.key(i);
      const std::byte* from =
          keys + cursor.page(tiles, i) * args.page_bytes + (key & page_mask) * (kHeadDim * 2);
      copy_tile<kHeadDim>(ring + stage * Tile::kStageBytes, from, args.half_bytes,
                          tiles.end_key - key, lane);
    }
    commit_copies();
  };
#pragma unroll
  for (int i = 0; i < Tile::kStages - 1; ++i) copy(i, i);
  int stage = 0;
  int free_stage = Tile::kStages - 1;
  for (int i = 0; i < tiles.count; ++i) {
    copy(i + Tile::kStages - 1, free_stage);
    wait_copies<Tile::kStages - 1>();
    __syncwarp();
    const SharedAddress tile = ring + stage * Tile::kStageBytes;
    float scores[4];
    score_tile<T, kHeadDim>(scores, query, tile, tiles.end_key - tiles.key(i), args.scale, lane);
    add_tile<T, kHeadDim>(state, scores, tile + Tile::kTileBytes, lane);
    __syncwarp();
    free_stage = stage;
    stage = stage + 1 == Tile::kStages ? 0 : stage + 1;
  }
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

// Grid: x head group and rank in the cluster, y slot.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2) decode_kernel(const DecodeArgs args) {
  using Tile = Tiling<kHeadDim>;
  static_assert(sizeof(Results<kHeadDim>) <= Tile::kSharedBytes);
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, shared);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int rank = blockIdx.x % args.cluster;
  const int head_group = blockIdx.x / args.cluster;
  const int kv_head = head_group / args.groups_per_kv;
  const int first_of_group = head_group % args.groups_per_kv * kDecodeHeads;
  const int head = kv_head * args.group + first_of_group;
  const int heads = min(args.group - first_of_group, kDecodeHeads);
  wait_for_previous_kernel();
  const DecodePiece piece = args.workspace.pieces[blockIdx.y];
  if (piece.num_pieces == 0) return;

  WarpState<kHeadDim> state{};
  state.highest[0] = state.highest[1] = kLowest;
  const T* q = static_cast<const T*>(args.q) + piece.q_row * args.q_stride + head * kHeadDim;
  stream_tiles<T, kHeadDim>(state, args, args.pages + kv_head * args.head_bytes,
                            args.page_ids + piece.first_page,
                            share_tiles(piece, rank, args.cluster, warp), q, heads,
                            shared_window(shared) + warp * Tile::kStages * Tile::kStageBytes, lane);
  wait_copies<0>();
  release_next_kernel();
  __syncthreads();
  auto& results = *reinterpret_cast<Results<kHeadDim>*>(shared);
  store_warp(results, state, warp, lane);
  __syncthreads();

  Output<T, kHeadDim> out;
  out.y = static_cast<T*>(args.y) + piece.q_row * args.y_stride + head * kHeadDim;
  out.piece_sums = int64_t{args.head_groups} * kDecodeHeads * kHeadDim;
  out.piece_stats = int64_t{args.head_groups} * args.cluster * kDecodeHeads;
  out.sums = args.workspace.partial_sums + piece.partial * out.piece_sums +
             int64_t{head_group} * kDecodeHeads * kHeadDim;
  out.stats = reinterpret_cast<float2*>(args.workspace.partial_stats) +
              piece.partial * out.piece_stats + int64_t{blockIdx.x} * kDecodeHeads;
  out.heads = heads;
  out.num_dims = kHeadDim / args.cluster;
  out.first_dim = rank * out.num_dims;
  finish(results, args, piece, out,
         args.workspace.counters + piece.request * args.head_groups * args.cluster + blockIdx.x);
}

template <typename T, int kHeadDim>
LaunchError launch_shape(const DecodeGrid& grid, const DecodeArgs& args, const Launch& launch) {
  constexpr int kSharedBytes = Tiling<kHeadDim>::kSharedBytes;
  const auto kernel = decode_kernel<T, kHeadDim>;
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != gpuSuccess) return error;
  const dim3 blocks(static_cast<unsigned>(grid.head_groups * grid.cluster),
                    static_cast<unsigned>(grid.slots));
#if defined(ENCORE_GPU_CUDA)
  if (grid.cluster > 1)
    return launch_clusters(kernel, blocks, kThreads, grid.cluster, kSharedBytes, launch, args);
#endif
  return launch_kernel(kernel, blocks, kThreads, kSharedBytes, launch, args);
}

template <typename T>
LaunchError launch_element(int32_t head_dim, const DecodeGrid& grid, const DecodeArgs& args,
                           const Launch& launch) {
  switch (head_dim) {
    case 64:
      return launch_shape<T, 64>(grid, args, launch);
    case 96:
      return launch_shape<T, 96>(grid, args, launch);
    case 128:
      return launch_shape<T, 128>(grid, args, launch);
    default:
      return gpuErrorInvalidValue;
  }
}

}  // namespace

LaunchError launch_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path, const AttentionArgs& args,
                          const AttentionWorkspace& workspace, const Launch& launch) {
  const DecodeGrid grid = decode_grid(shape, bounds, path);
  DecodeArgs decode{};
  decode.workspace = workspace;
  decode.page_ids = args.inputs.page_ids;
  decode.pages = args.kv.data;
  decode.page_bytes = shape.kv.page_bytes();
  decode.half_bytes = shape.kv.half_elements() * element_bytes(shape.kv.element);
  decode.head_bytes = shape.kv.head_elements() * element_bytes(shape.kv.element);
  decode.q = args.q;
  decode.y = args.y;
  decode.q_stride = args.q_stride;
  decode.y_stride = args.y_stride;
  while ((1 << decode.page_shift) < shape.kv.page_size) ++decode.page_shift;
  decode.group = shape.num_heads / shape.kv.num_kv_heads;
  decode.groups_per_kv = grid.head_groups / shape.kv.num_kv_heads;
  decode.head_groups = grid.head_groups;
  decode.cluster = grid.cluster;
  decode.scale = args.scale * kLog2E;
  if (shape.element == Element::kBF16)
    return launch_element<bf16>(shape.kv.head_dim, grid, decode, launch);
  return launch_element<f16>(shape.kv.head_dim, grid, decode, launch);
}

}  // namespace encore::gpu
