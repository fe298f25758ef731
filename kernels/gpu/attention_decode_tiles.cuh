// How a warp of the decode kernels with mma.sync attends to its tiles of keys (attention_decode.cu,
// attention_decode_rope.cu).
//
// A warp takes tiles of 16 keys, with its own ring of asynchronous copies, so that nothing but its
// own pace orders them. Products are transposed, so that the few heads are the narrow side of the
// matrix instruction:
//   S^T [16 keys, 8 heads] = K q^T,   O^T [head_dim, 8 heads] += V^T P^T
// Softmax is online, in f32. What runs once is not unrolled: of so short a kernel the first fetch
// of an instruction costs more than its run.
#pragma once

#include "attention_combine.cuh"
#include "launch.cuh"
#include "mma.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu::decode {

inline constexpr int kLanes = 32;
inline constexpr int kThreads = kWarps * kLanes;

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
  float sums[kHeadDim / 16][4] = {};  // O^T fragments
  float highest[2] = {kLowest, kLowest};
  float total[2] = {};
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

// `stride`: from head to head, elements.
template <typename T, int kHeadDim>
__device__ inline void load_query(uint32_t (&query)[kHeadDim / 16][2], const T* q, int stride,
                                  int heads, int lane) {
  const int head = lane / 4;
  const T* row = q + head * stride + lane % 4 * 2;
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

// The warp's ring of copies over its tiles.
template <typename T, int kHeadDim>
class TileStream {
 public:
  // `keys`: the KV head's K of page 0. `ring`: the warp's, in shared memory. Keys from
  // `end_in_pages` on are not read there: on_tile() of run() has them.
  __device__ TileStream(const DecodeArgs& args, const std::byte* keys, const int32_t* page_ids,
                        const WarpTiles& tiles, int end_in_pages, SharedAddress ring, int lane)
      : args_(args),
        keys_(keys),
        tiles_(tiles),
        end_in_pages_(end_in_pages),
        ring_(ring),
        lane_(lane),
        cursor_(page_ids, args.page_shift, tiles, lane) {}

  // Asks for the first tiles. Then, once: run().
  __device__ void fill() {
#pragma unroll 1
    for (int i = 0; i < Tile::kStages - 1; ++i) copy(i, i);
  }
  // on_tile(i, stage) runs when tile i is in shared memory from `stage` on, K before V.
  template <typename OnTile>
  __device__ void run(WarpState<kHeadDim>& state, const uint32_t (&query)[kHeadDim / 16][2],
                      const OnTile& on_tile) {
    int stage = 0;
    int free_stage = Tile::kStages - 1;
#pragma unroll 1
    for (int i = 0; i < tiles_.count; ++i) {
      copy(i + Tile::kStages - 1, free_stage);
      wait_copies<Tile::kStages - 1>();
      __syncwarp();
      const SharedAddress tile = ring_ + stage * Tile::kStageBytes;
      on_tile(i, tile);
      float scores[4];
      score_tile<T, kHeadDim>(scores, query, tile, tiles_.end_key - tiles_.key(i), args_.scale,
                              lane_);
      add_tile<T, kHeadDim>(state, scores, tile + Tile::kTileBytes, lane_);
      __syncwarp();
      free_stage = stage;
      stage = stage + 1 == Tile::kStages ? 0 : stage + 1;
    }
    wait_copies<0>();
  }

 private:
  using Tile = Tiling<kHeadDim>;

  __device__ void copy(int i, int stage) {
    if (i < tiles_.count) {
      const int key = tiles_.key(i);
      const int in_page = key & ((1 << args_.page_shift) - 1);
      const std::byte* from =
          keys_ + cursor_.page(tiles_, i) * args_.page_bytes + in_page * (kHeadDim * 2);
      copy_tile<kHeadDim>(ring_ + stage * Tile::kStageBytes, from, args_.half_bytes,
                          end_in_pages_ - key, lane_);
    }
    commit_copies();
  }

  const DecodeArgs& args_;
  const std::byte* keys_;
  const WarpTiles& tiles_;
  int end_in_pages_;
  SharedAddress ring_;
  int lane_;
  PageCursor<kLanes> cursor_;
};

// Shared memory of a block: the warps' rings, and over them what the warps have found; then
// kMoreBytes, and last, where there are clusters, what comes from their other blocks. Without that
// it is no more than the smallest devices of compute capability 8 have.
inline constexpr int kSmallestSharedBytes = 99 << 10;
template <int kHeadDim, int kMoreBytes>
int decode_shared_bytes(AttentionPath path) {
  static_assert(Tiling<kHeadDim>::kSharedBytes + kMoreBytes <= kSmallestSharedBytes);
  const bool clusters = path == AttentionPath::kHopper;
  const int received = clusters ? static_cast<int>(sizeof(Received<kHeadDim>)) : 0;
  return Tiling<kHeadDim>::kSharedBytes + kMoreBytes + received;
}

// In clusters where the grid has them.
template <typename... Params, typename... Args>
LaunchError launch_blocks(void (*kernel)(Params...), const DecodeGrid& grid, int shared_bytes,
                          const Launch& launch, const Args&... args) {
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != gpuSuccess) return error;
  const dim3 blocks(static_cast<unsigned>(grid.head_groups * grid.cluster),
                    static_cast<unsigned>(grid.rows));
  const auto bytes = static_cast<size_t>(shared_bytes);
#if defined(ENCORE_GPU_CUDA)
  if (grid.cluster > 1)
    return launch_clusters(kernel, blocks, kThreads, grid.cluster, bytes, launch, args...);
#endif
  return launch_kernel(kernel, blocks, kThreads, bytes, launch, args...);
}

// See finish(). Before the first piece.
template <bool kClusters = kHasClusters>
__device__ inline void begin_cluster([[maybe_unused]] const DecodeArgs& args) {
  if constexpr (kClusters) {
    if (args.cluster > 1) cluster_arrive();
  }
}

// Of a block without any piece, which then ends: that one block waits is enough, and the others
// make room.
__device__ inline void leave_without_work() {
  release_next_kernel();
  if (blockIdx.x == 0 && blockIdx.y == 0) wait_for_previous_kernel();
}

// Brings together what the block's warps have found, once they have drained their rings; then
// cluster and pieces. `more_bytes`: kMoreBytes of decode_shared_bytes().
template <typename T, int kHeadDim>
__device__ inline void finish_block(unsigned char* shared, int more_bytes,
                                    WarpState<kHeadDim>& state, const DecodeArgs& args,
                                    const DecodePiece& piece, const HeadGroup& group, bool more) {
  static_assert(sizeof(Results<kHeadDim>) <= Tiling<kHeadDim>::kSharedBytes);
  __syncthreads();
  auto& results = *reinterpret_cast<Results<kHeadDim>*>(shared);
  store_warp(results, state, threadIdx.x / kLanes, threadIdx.x % kLanes);
  __syncthreads();
  finish(
      results,
      reinterpret_cast<Received<kHeadDim>*>(shared + Tiling<kHeadDim>::kSharedBytes + more_bytes),
      args, piece, output_of<T, kHeadDim, kThreads>(args, piece, group), counter_of(args, piece),
      more);
}

}  // namespace encore::gpu::decode
