// Decode attention with warp-level matrix instructions (sm_80 and later): one query row a request
// against its whole context, in pieces (split KV).
//
// A thread block takes one piece, or its share of one where blocks form clusters, for up to eight
// heads of q that share a KV head. Its four warps take tiles of 16 keys in turn, each with its own
// ring of asynchronous copies, so that nothing but the warp's own pace orders them. Products are
// transposed, so that the few heads are the narrow side of the matrix instruction:
//   S^T [16 keys, 8 heads] = K q^T,   O^T [head_dim, 8 heads] += V^T P^T
// Softmax is online, in f32. At the end the warps' results are added in shared memory, the blocks'
// of a cluster through each other's shared memory, and the pieces' in global memory by the block
// that comes last.
#include "attention_combine.cuh"
#include "attention_internal.h"
#include "launch.cuh"
#include "mma.cuh"
#include "vendor.h"
#include "warp.cuh"
#if defined(ENCORE_GPU_CUDA)
#include "sm90/cluster.cuh"
#endif

namespace encore::gpu {
namespace decode {
namespace {

constexpr int kLanes = 32;
constexpr int kThreads = kWarps * kLanes;

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
};

// What a warp has found. A lane holds two heads: 2 * (lane % 4) and the next one.
template <int kHeadDim>
struct WarpState {
  float sums[kHeadDim / 16][4];  // O^T fragments
  float highest[2];
  float total[2];
};

template <int kHeadDim>
__device__ inline void store_warp(Results<kHeadDim>& results, WarpState<kHeadDim>& state, int warp,
                                  int lane) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int mask = 4; mask < kLanes; mask *= 2)
      state.total[i] += shuffle_xor<kLanes>(state.total[i], mask);
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

__device__ inline int place_in_tile(int row_bytes, int row, int chunk) {
  return row * row_bytes + ((chunk ^ (row & 7)) << 4);
}

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
    value = fmaxf(value, shuffle_xor<kLanes>(value, mask));
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
  PageCursor<kLanes> cursor(page_ids, args.page_shift, tiles, lane);
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

// One piece, for the head group and rank that blockIdx.x stands for.
template <typename T, int kHeadDim>
__device__ inline void attend_to_piece(const DecodeArgs& args, const DecodePiece& piece,
                                       unsigned char* shared) {
  using Tile = Tiling<kHeadDim>;
  static_assert(sizeof(Results<kHeadDim>) <= Tile::kSharedBytes);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const HeadGroup group(args);

  WarpState<kHeadDim> state{};
  state.highest[0] = state.highest[1] = kLowest;
  const T* q = static_cast<const T*>(args.q) + piece.q_row * args.q_stride + group.head * kHeadDim;
  stream_tiles<T, kHeadDim>(state, args, args.pages + group.kv_head * args.head_bytes,
                            args.page_ids + piece.first_page,
                            share_tiles(piece, group.rank, args.cluster, warp), q, group.heads,
                            shared_window(shared) + warp * Tile::kStages * Tile::kStageBytes, lane);
  wait_copies<0>();
  release_next_kernel();
  __syncthreads();
  auto& results = *reinterpret_cast<Results<kHeadDim>*>(shared);
  store_warp(results, state, warp, lane);
  __syncthreads();
  finish(results, args, piece, output_of<T, kHeadDim, kThreads>(args, piece, group),
         counter_of(args, piece));
}

// Grid: x head group and rank in the cluster, y the first slot; others follow a grid apart, up to
// the first that has no work.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2) decode_kernel(const DecodeArgs args) {
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, shared);
  wait_for_previous_kernel();
  for (auto slot = static_cast<int32_t>(blockIdx.y); slot < args.slots;
       slot += static_cast<int32_t>(gridDim.y)) {
    const DecodePiece piece = args.workspace.pieces[slot];
    if (piece.num_pieces == 0) return;
    attend_to_piece<T, kHeadDim>(args, piece, shared);
    __syncthreads();  // the next piece is copied over the results of this one
  }
}

template <typename T, int kHeadDim>
LaunchError launch_shape(const DecodeGrid& grid, const DecodeArgs& args, const Launch& launch) {
  constexpr int kSharedBytes = Tiling<kHeadDim>::kSharedBytes;
  const auto kernel = decode_kernel<T, kHeadDim>;
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != gpuSuccess) return error;
  const dim3 blocks(static_cast<unsigned>(grid.head_groups * grid.cluster),
                    static_cast<unsigned>(grid.rows));
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
}  // namespace decode

LaunchError launch_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path, const AttentionArgs& args,
                          const AttentionWorkspace& workspace, const Launch& launch) {
  const DecodeGrid grid = decode_grid(shape, bounds, path);
  const decode::DecodeArgs decode_args = decode::make_decode_args(shape, grid, args, workspace);
  if (shape.element == Element::kBF16)
    return decode::launch_element<bf16>(shape.kv.head_dim, grid, decode_args, launch);
  return decode::launch_element<f16>(shape.kv.head_dim, grid, decode_args, launch);
}

}  // namespace encore::gpu
