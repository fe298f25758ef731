// Decode attention by the tiles of matrix_tile.cuh, on AMD: one query row a request against its
// whole context, in pieces (split KV).
//
// A thread block takes one piece for up to eight heads of q that share a KV head. Its four warps
// take tiles of 16 keys in turn. Products are transposed, as in prefill:
//   S^T [16 keys, 16 heads] = K q^T,   O^T [head_dim, 16 heads] += V^T P^T
// Half of the heads are of nobody; reading the cache takes longer than that. K and V go from memory
// to the operands' registers directly, each read once, in whole lines: the order of the dimensions
// is free, so each operand takes what its lane's 16-byte accesses bring. While one product runs,
// the other's operand for the next tile is on its way.
//
// Softmax is online, in f32. Results add up as attention_combine.cuh says.
#include "attention_combine.cuh"
#include "attention_internal.h"
#include "launch.cuh"
#include "matrix_tile.cuh"
#include "pair.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace decode {
namespace {

template <typename T, int kHeadDim>
struct MatrixShared {
  Results<kHeadDim> results;
  static constexpr int kRow = kHeadDim / 8 + 1;  // padded against bank conflicts
  uint4 q[kDecodeHeads][kRow];
};

// Lane 16 g + l brings part g of kParts: of row l of K every kParts-th 16 bytes; of V
// kHeadDim / 16 dimensions, from l * kHeadDim / 16 on, of 16 / kParts keys.
template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
class WarpDecode {
 public:
  using Tile = MatrixTile<kUnit, W, T>;
  using Shared = MatrixShared<T, kHeadDim>;

  __device__ WarpDecode(Shared& shared, const DecodeArgs& args, int kv_head, int lane)
      : shared_(shared),
        args_(args),
        keys_(args.pages + kv_head * args.head_bytes),
        lane_(lane),
        row_(lane % 16),
        part_(lane / 16) {}

  __device__ __forceinline__ void run(const int32_t* page_ids, const WarpTiles& tiles) {
    if (tiles.count == 0) return;
    PageCursor<W> cursor(page_ids, args_.page_shift, tiles, lane_);
    const std::byte* tile = tile_at(tiles, cursor, 0);
    load_keys(tile);
    load_values(tile);
    for (int i = 0; i < tiles.count; ++i) {
      const bool more = i + 1 < tiles.count;
      const int valid = tiles.end_key - tiles.key(i);
      forget_query();
      typename Tile::C scores = multiply_keys();
      if (more) {
        tile = tile_at(tiles, cursor, i + 1);
        load_keys(tile);
      }
      const float fade = weigh(scores, valid);
      if (valid < kTileKeys) clear_values(valid);
      multiply_values(scores, fade);
      if (more) load_values(tile);
    }
  }

  __device__ __forceinline__ void store(int warp) {
#pragma unroll
    for (int lanes = 16; lanes < W; lanes *= 2) total_ += shuffle_xor<W>(total_, lanes);
    if (row_ >= kDecodeHeads) return;
    Results<kHeadDim>& results = shared_.results;
#pragma unroll
    for (int v = 0; v < 256 / W; ++v) {
#pragma unroll
      for (int d = 0; d < kDims; ++d)
        results.warp_sums[warp][row_][Tile::row(lane_, v) * kDims + d] = sums_[d].values[v];
    }
    if (lane_ < 16) results.warp_stats[warp][row_] = make_float2(highest_, total_);
  }

 private:
  static constexpr int kSteps = kHeadDim / 16;  // products along head_dim
  static constexpr int kDims = kHeadDim / 16;   // of V, of a lane
  static constexpr int kParts = Tile::kParts;
  static constexpr int kPartWords = Tile::kPartWords;
  static constexpr int kKeysOfLane = 16 / kParts;  // of V
  static constexpr int kRowWords = kSteps * kPartWords;

  // The dimension that k of product `step` stands for, such that the parts of K come in accesses of
  // 16 bytes: their words are those of the products, one after another.
  __device__ static int dim_of(int step, int k) {
    return kParts == 4 ? (step / 2 * 4 + k / 4) * 8 + step % 2 * 4 : step * 16 + k;
  }

  __device__ __forceinline__ const std::byte* tile_at(const WarpTiles& tiles, PageCursor<W>& cursor,
                                                      int i) const {
    const int in_page = tiles.key(i) & ((1 << args_.page_shift) - 1);
    return keys_ + cursor.page(tiles, i) * args_.page_bytes + in_page * (kHeadDim * 2);
  }

  // Has q read anew for each tile: kept, it would take the registers of WMMA's larger operands.
  __device__ __forceinline__ static void forget_query() {
    if constexpr (kUnit == MatrixUnit::kWmma) asm volatile("" ::: "memory");
  }
  __device__ __forceinline__ void load_keys(const std::byte* tile) {
    const T* const row = reinterpret_cast<const T*>(tile) + row_ * kHeadDim;
#pragma unroll
    for (int i = 0; i < kRowWords / 4; ++i)
      load_words(reinterpret_cast<uint32_t(&)[4]>(k_[4 * i]), row + (i * kParts + part_) * 8);
  }
  __device__ __forceinline__ void load_values(const std::byte* tile) {
    const T* const rows = reinterpret_cast<const T*>(tile + args_.half_bytes) +
                          part_ * kKeysOfLane * kHeadDim + row_ * kDims;
#pragma unroll
    for (int key = 0; key < kKeysOfLane; ++key) load_words(v_[key], rows + key * kHeadDim);
  }
  // Values from key `valid` on become 0, whatever the page holds there.
  __device__ __forceinline__ void clear_values(int valid) {
#pragma unroll
    for (int key = 0; key < kKeysOfLane; ++key) {
#pragma unroll
      for (int i = 0; i < kDims / 2; ++i)
        v_[key][i] = part_ * kKeysOfLane + key < valid ? v_[key][i] : 0;
    }
  }

  __device__ __forceinline__ typename Tile::C multiply_keys() const {
    typename Tile::C scores;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const auto b = Tile::load_b(lane_, [&](int head, int k) {
        return reinterpret_cast<const T*>(shared_.q[head % kDecodeHeads]) + dim_of(step, k);
      });
      const auto& part = reinterpret_cast<const uint32_t(&)[kPartWords]>(k_[step * kPartWords]);
      Tile::multiply(scores, Tile::a_of_parts(lane_, part), b);
    }
    return scores;
  }

  // Turns scores into weights; keys from `valid` on weigh nothing. Gives what earlier weights must
  // be multiplied by.
  __device__ __forceinline__ float weigh(typename Tile::C& scores, int valid) {
    float highest = highest_;
#pragma unroll
    for (int v = 0; v < 256 / W; ++v) {
      float& score = scores.values[v];
      score = Tile::row(lane_, v) < valid ? score * args_.scale : kLowest;
      highest = fmaxf(highest, score);
    }
#pragma unroll
    for (int lanes = 16; lanes < W; lanes *= 2)
      highest = fmaxf(highest, shuffle_xor<W>(highest, lanes));
    const float fade = exp2_fast(highest_ - highest);
    total_ *= fade;
#pragma unroll
    for (int v = 0; v < 256 / W; ++v) {
      scores.values[v] = exp2_fast(scores.values[v] - highest);
      total_ += scores.values[v];
    }
    highest_ = highest;
    return fade;
  }

  // Tile d of V^T has dimension d of each lane's.
  __device__ __forceinline__ void multiply_values(const typename Tile::C& weights, float fade) {
    const auto b = Tile::as_b(lane_, weights);
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      uint32_t part[kPartWords];
#pragma unroll
      for (int i = 0; i < kPartWords; ++i) {
        const uint32_t first = v_[2 * i][d / 2];
        const uint32_t second = v_[2 * i + 1][d / 2];
        part[i] = d % 2 == 0 ? lower_halves(first, second) : upper_halves(first, second);
      }
#pragma unroll
      for (int v = 0; v < 256 / W; ++v) sums_[d].values[v] *= fade;
      Tile::multiply(sums_[d], Tile::a_of_parts(lane_, part), b);
    }
  }

  Shared& shared_;
  const DecodeArgs& args_;
  const std::byte* const keys_;  // of the KV head, in page 0
  const int lane_;
  const int row_;  // of an operand: a key, or a place among V's dimensions; the head of its column
  const int part_;
  uint32_t k_[kRowWords];
  uint32_t v_[kKeysOfLane][kDims / 2];
  typename Tile::C sums_[kDims];
  // Of the lane's head; the total of its own keys, until store().
  float highest_ = kLowest;
  float total_ = 0.0F;
};

// Rows of q for the block's heads; zeros where there are none.
template <typename T, int kHeadDim, int kThreads>
__device__ inline void stage_query(MatrixShared<T, kHeadDim>& shared, const T* q, int heads) {
  constexpr int kPieces = kHeadDim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kDecodeHeads * kPieces; i += kThreads) {
    const int head = i / kPieces;
    shared.q[head][i % kPieces] =
        head < heads ? reinterpret_cast<const uint4*>(q + head * kHeadDim)[i % kPieces]
                     : uint4{0, 0, 0, 0};
  }
}

template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
__device__ inline void attend_to_piece(const DecodeArgs& args, const DecodePiece& piece,
                                       MatrixShared<T, kHeadDim>& shared) {
  constexpr int kThreads = kWarps * W;
  const int warp = static_cast<int>(threadIdx.x) / W;
  const HeadGroup group(args);
  stage_query<T, kHeadDim, kThreads>(
      shared, static_cast<const T*>(args.q) + piece.q_row * args.q_stride + group.head * kHeadDim,
      group.heads);
  __syncthreads();
  WarpDecode<kUnit, W, T, kHeadDim> decode(shared, args, group.kv_head,
                                           static_cast<int>(threadIdx.x) % W);
  decode.run(args.page_ids + piece.first_page, share_tiles(piece, 0, 1, warp));
  decode.store(warp);
  __syncthreads();
  finish<T, kHeadDim, kThreads>(shared.results, nullptr, args, piece,
                                output_of<T, kHeadDim, kThreads>(args, piece, group),
                                counter_of(args, piece), false);
}

// Grid: x head group, y the first slot; others follow a grid apart, up to the first that has no
// work.
template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
__global__ void __launch_bounds__(kWarps* W) decode_matrix_kernel(const DecodeArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  if constexpr (!has_matrix_unit<kUnit, W>()) {
    refuse_launch<W>();
  } else {
    using Shared = MatrixShared<T, kHeadDim>;
    ENCORE_GPU_DYNAMIC_SHARED(Shared, shared);
    wait_for_previous_kernel();
    for (auto slot = static_cast<int32_t>(blockIdx.y); slot < args.slots;
         slot += static_cast<int32_t>(gridDim.y)) {
      const DecodePiece piece = args.workspace.pieces[slot];
      if (piece.num_pieces == 0) return;
      attend_to_piece<kUnit, W, T, kHeadDim>(args, piece, *shared);
      __syncthreads();  // the next piece's results go where this one's are
    }
  }
}

template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
LaunchError launch_matrix(const DecodeGrid& grid, const DecodeArgs& args, const Launch& launch) {
  const dim3 blocks(static_cast<unsigned>(grid.head_groups), static_cast<unsigned>(grid.rows));
  return launch_kernel(decode_matrix_kernel<kUnit, W, T, kHeadDim>, blocks, kWarps * W,
                       sizeof(MatrixShared<T, kHeadDim>), launch, args);
}

template <MatrixUnit kUnit, int W, typename T>
LaunchError launch_matrix_of(int32_t head_dim, const DecodeGrid& grid, const DecodeArgs& args,
                             const Launch& launch) {
  switch (head_dim) {
    case 64:
      return launch_matrix<kUnit, W, T, 64>(grid, args, launch);
    case 96:
      return launch_matrix<kUnit, W, T, 96>(grid, args, launch);
    case 128:
      return launch_matrix<kUnit, W, T, 128>(grid, args, launch);
    default:
      return gpuErrorInvalidValue;
  }
}

}  // namespace
}  // namespace decode

LaunchError launch_decode_matrix(const AttentionShape& shape, const AttentionBounds& bounds,
                                 AttentionPath path, const AttentionArgs& args,
                                 const AttentionWorkspace& workspace, const Launch& launch) {
  const DecodeGrid grid = decode_grid(shape, bounds, path);
  const decode::DecodeArgs decode_args = decode::make_decode_args(shape, grid, args, workspace);
  const auto launch_unit = [&]<MatrixUnit kUnit, int W>() -> LaunchError {
    if (launch.lanes != W) return gpuErrorInvalidValue;
    return shape.element == Element::kF16 ? decode::launch_matrix_of<kUnit, W, f16>(
                                                shape.kv.head_dim, grid, decode_args, launch)
                                          : decode::launch_matrix_of<kUnit, W, bf16>(
                                                shape.kv.head_dim, grid, decode_args, launch);
  };
  if (path == AttentionPath::kMfma) return launch_unit.template operator()<MatrixUnit::kMfma, 64>();
  if (path == AttentionPath::kWmma) return launch_unit.template operator()<MatrixUnit::kWmma, 32>();
  return gpuErrorInvalidValue;
}

}  // namespace encore::gpu
