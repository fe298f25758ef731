// Decode attention with warp-level matrix instructions (sm_80 and later): one query row a request
// against its whole context, in pieces (split KV).
//
// A thread block takes one piece, or its share of one where blocks form clusters, for up to eight
// heads of q that share a KV head. Its four warps take tiles of its keys in turn. At the end the
// warps' results are added in shared memory, the blocks' of a cluster through each other's shared
// memory, and the pieces' in global memory by the block that comes last.
#include "attention_decode_tiles.cuh"
#include "attention_internal.h"
#include "launch.cuh"
#include "vendor.h"

namespace encore::gpu {
namespace decode {
namespace {

// Pieces `slot`, `slot` + gridDim.y, ..., up to the first that has no work, for the head group and
// rank that blockIdx.x stands for. The plan is complete whenever this kernel runs, so that the
// first piece and its pages are looked up under the kernel before.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2) decode_kernel(const DecodeArgs args) {
  using Tile = Tiling<kHeadDim>;
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, shared);
  const int warp = threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const HeadGroup group(args);
  auto slot = static_cast<int32_t>(blockIdx.y);
  DecodePiece piece = load_piece(args, slot);
  if (piece.num_pieces == 0) return leave_without_work();
  begin_cluster(args);
  while (piece.num_pieces > 0) {
    const WarpTiles tiles = share_tiles(piece, group.rank, args.cluster, warp);
    TileStream<T, kHeadDim> stream(
        args, args.pages + group.kv_head * args.head_bytes, args.page_ids + piece.first_page, tiles,
        piece.end_key, shared_window(shared) + warp * Tile::kStages * Tile::kStageBytes, lane);
    wait_for_previous_kernel();  // for the first piece; then it returns at once
    const T* q =
        static_cast<const T*>(args.q) + piece.q_row * args.q_stride + group.head * kHeadDim;
    uint32_t query[kHeadDim / 16][2];
    load_query<T, kHeadDim>(query, q, kHeadDim, group.heads, lane);
    stream.fill();
    WarpState<kHeadDim> state;
    stream.run(state, query, [](int, SharedAddress) {});
    release_next_kernel();
    slot += static_cast<int32_t>(gridDim.y);
    const DecodePiece next = slot < args.slots ? load_piece(args, slot) : DecodePiece{};
    finish_block<T>(shared, 0, state, args, piece, group, next.num_pieces > 0);
    piece = next;
    __syncthreads();  // the next piece is copied over the results of this one
  }
}

template <typename T, int kHeadDim>
LaunchError launch_shape(AttentionPath path, const DecodeGrid& grid, const DecodeArgs& args,
                         const Launch& launch) {
  return launch_blocks(decode_kernel<T, kHeadDim>, grid, decode_shared_bytes<kHeadDim, 0>(path),
                       launch, args);
}

template <typename T>
LaunchError launch_element(int32_t head_dim, AttentionPath path, const DecodeGrid& grid,
                           const DecodeArgs& args, const Launch& launch) {
  switch (head_dim) {
    case 64:
      return launch_shape<T, 64>(path, grid, args, launch);
    case 96:
      return launch_shape<T, 96>(path, grid, args, launch);
    case 128:
      return launch_shape<T, 128>(path, grid, args, launch);
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
    return decode::launch_element<bf16>(shape.kv.head_dim, path, grid, decode_args, launch);
  return decode::launch_element<f16>(shape.kv.head_dim, path, grid, decode_args, launch);
}

}  // namespace encore::gpu
