// Decode attention of a single request that does rope_kv_write()'s work too: one kernel in place of
// two, and one that reads the cache while the product before it still makes q.
//
// Only the newest key and value depend on the kernel before; all others were there before the step.
// So a block looks up its piece and fills its rings of copies first, then waits, then normalises
// and rotates q and the new key in shared memory, by the lanes and with the bits of
// rope_kv_write(). The new key never comes from its page: the warp with its tile writes it over a
// row of the ring, and one block of each KV head stores it for the steps to come.
#include "attention_decode_tiles.cuh"
#include "attention_internal.h"
#include "launch.cuh"
#include "pack.cuh"
#include "rope_unit.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace decode {
namespace {

constexpr int kUnit = 8;  // N of rope_unit.cuh
constexpr int kKeyRow = kDecodeHeads;
constexpr int kValueRow = kDecodeHeads + 1;

// The new token's heads that a block needs: its heads of q, the key, the value.
template <int kHeadDim>
struct NewToken {
  static constexpr int kStride = kHeadDim + 8;  // padded against bank conflicts
  bf16 rows[kDecodeHeads + 2][kStride];

  static_assert(kStride * (kDecodeHeads + 2) % 8 == 0, "what follows is read by 16 bytes");
};

// The head of qkv that is row `row` of NewToken; without work if the block has none.
__device__ inline Head head_of_row(const RopeKvArgs& rope, const HeadGroup& group, int row,
                                   bool has_unit, bool has_new) {
  if (row < kDecodeHeads) return Head(rope, group.head + row, has_unit && row < group.heads);
  const int32_t kv_heads = rope.kv.layout.num_kv_heads;
  const int32_t index = rope.num_heads + group.kv_head + (row == kKeyRow ? 0 : kv_heads);
  return Head(rope, index, has_unit && has_new && row <= kValueRow);
}

__device__ inline void load_angles(const float* from, float (&values)[kUnit]) {
#pragma unroll
  for (int i = 0; i < kUnit; i += 4) {
    const float4 some = load_fresh(reinterpret_cast<const float4*>(from + i));
    values[i] = some.x;
    values[i + 1] = some.y;
    values[i + 2] = some.z;
    values[i + 3] = some.w;
  }
}

// A lane's unit of the new token: what can be read before the kernel waits, and the work after.
template <int kHeadDim>
class NewUnit {
 public:
  __device__ NewUnit(const RopeKvArgs& rope, const HeadSplit& split, const HeadGroup& group,
                     const DecodePiece& piece, bool has_new)
      : rope_(rope),
        split_(split),
        row_(static_cast<int>(threadIdx.x) / split.lanes),
        unit_(static_cast<int>(threadIdx.x) % split.lanes),
        head_(head_of_row(rope, group, row_, unit_ < split.units, has_new)),
        place_(place_of<kUnit>(rope, split, unit_)),
        token_(piece.q_row) {
    if (!head_.has_work) return;
    const bf16* weight = head_.weight(rope);
    if (weight != nullptr) weight_ = load_unit<kUnit>(weight, place_, kHeadDim);
    if (!rotates()) return;
    const float* angles = rope.cos_sin + int64_t{token_} * rope.rotary_dim + unit_ * kUnit;
    load_angles(angles, cosines_);
    load_angles(angles + split.pairs, sines_);
  }

  // After the kernel before. `slot`: where the cache has the key and the value; -1: not by this
  // block. All lanes of a warp call it together.
  __device__ void make(NewToken<kHeadDim>& token, const KvStrides& strides, int32_t slot) const {
    bf16* const x =
        static_cast<bf16*>(rope_.qkv) + token_ * rope_.qkv_stride + int64_t{head_.index} * kHeadDim;
    const Unit<kUnit> values =
        head_.has_work ? load_unit<kUnit>(x, place_, kHeadDim) : Unit<kUnit>{};
    float a[kUnit];
    float b[kUnit];
    unpack(values.first, a);
    unpack(values.second, b);
    if (rope_.q_norm_weight != nullptr || rope_.k_norm_weight != nullptr)
      normalise<kLanes>(rope_, split_, head_.weight(rope_) != nullptr, weight_, a, b);
    if (!head_.has_work) return;
    if (rotates()) rotate(rope_.pairing, cosines_, sines_, a, b);
    bf16* const to = token.rows[row_];
    store_pack(to + place_.first, pack_of(a));
    if (place_.second < kHeadDim) store_pack(to + place_.second, pack_of(b));
    if (!head_.is_q)
      store_unit(rope_, strides, head_, place_, CacheRow(rope_, strides, slot), x, a, b);
  }

 private:
  __device__ bool rotates() const {
    return (head_.is_q || head_.is_k) && unit_ < split_.rotated_units;
  }

  const RopeKvArgs& rope_;
  const HeadSplit& split_;
  int row_;
  int unit_;
  Head head_;
  UnitPlace place_;
  int32_t token_;
  Unit<kUnit> weight_{};
  float cosines_[kUnit] = {};
  float sines_[kUnit] = {};
};

// The new key and value over row `row` of a tile; one warp.
template <int kHeadDim>
__device__ inline void put_new_key(SharedAddress tile, const NewToken<kHeadDim>& token, int row,
                                   int lane) {
  using Tile = Tiling<kHeadDim>;
  constexpr int kChunks = 2 * Tile::kChunks;  // of key and value
  static_assert(kChunks <= kLanes);
  if (lane < kChunks) {
    const int half = lane / Tile::kChunks;
    const int chunk = lane % Tile::kChunks;
    store16_shared(tile + half * Tile::kTileBytes + place_in_tile(Tile::kRowBytes, row, chunk),
                   token.rows[kKeyRow + half] + chunk * 8);
  }
  __syncwarp();
}

// Grid as decode_kernel()'s, a row for every slot. What it reads before it waits is complete: the
// plan, for no kernel starts while it runs (attention_plan.cu), and the keys of earlier steps.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    rope_decode_kernel(const DecodeArgs args, const RopeKvArgs rope, const HeadSplit split,
                       const KvStrides strides) {
  using Tile = Tiling<kHeadDim>;
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, shared);
  auto& token = *reinterpret_cast<NewToken<kHeadDim>*>(shared + Tile::kSharedBytes);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const DecodePiece piece = load_piece(args, static_cast<int32_t>(blockIdx.y));
  if (piece.num_pieces == 0) return leave_without_work();
  begin_cluster(args);
  const HeadGroup group(args);
  // The last block of the last piece has the new key; of those with the same KV head, one stores
  // it.
  const bool has_new =
      piece.partial - piece.first_partial == piece.num_pieces - 1 && group.rank == args.cluster - 1;
  const bool stores = has_new && group.index % args.groups_per_kv == 0;
  const int32_t slot = stores ? load_fresh(rope.slots + piece.q_row) : -1;
  const WarpTiles tiles = share_tiles(piece, group.rank, args.cluster, warp);
  TileStream<bf16, kHeadDim> stream(
      args, args.pages + group.kv_head * args.head_bytes, args.page_ids + piece.first_page, tiles,
      piece.end_key - (has_new ? 1 : 0),
      shared_window(shared) + warp * Tile::kStages * Tile::kStageBytes, lane);
  stream.fill();
  const NewUnit<kHeadDim> unit(rope, split, group, piece, has_new);

  release_next_kernel();
  wait_for_previous_kernel();
  unit.make(token, strides, slot);
  __syncthreads();
  uint32_t query[kHeadDim / 16][2];
  load_query<bf16, kHeadDim>(query, token.rows[0], NewToken<kHeadDim>::kStride, group.heads, lane);
  WarpState<kHeadDim> state;
  stream.run(state, query, [&](int i, SharedAddress tile) {
    const int row = piece.end_key - 1 - tiles.key(i);
    if (has_new && row < kTileKeys) put_new_key(tile, token, row, lane);
  });
  finish_block<bf16>(shared, sizeof(token), state, args, piece, group, false);
}

template <int kHeadDim>
LaunchError launch_shape(AttentionPath path, const DecodeGrid& grid, const DecodeArgs& args,
                         const RopeKvArgs& rope, const Launch& launch) {
  constexpr auto kTokenBytes = static_cast<int>(sizeof(NewToken<kHeadDim>));
  return launch_blocks(rope_decode_kernel<kHeadDim>, grid,
                       decode_shared_bytes<kHeadDim, kTokenBytes>(path), launch, args, rope,
                       split_heads<kUnit>(rope), kv_strides(rope.kv.layout));
}

}  // namespace
}  // namespace decode

LaunchError launch_rope_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                               AttentionPath path, const RopeKvArgs& rope,
                               const AttentionArgs& args, const AttentionWorkspace& workspace,
                               const Launch& launch) {
  const DecodeGrid grid = decode_grid(shape, bounds, path);
  const decode::DecodeArgs decode_args = decode::make_decode_args(shape, grid, args, workspace);
  switch (shape.kv.head_dim) {
    case 64:
      return decode::launch_shape<64>(path, grid, decode_args, rope, launch);
    case 96:
      return decode::launch_shape<96>(path, grid, decode_args, rope, launch);
    case 128:
      return decode::launch_shape<128>(path, grid, decode_args, rope, launch);
    default:
      return gpuErrorInvalidValue;
  }
}

}  // namespace encore::gpu
