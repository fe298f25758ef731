// What the parts of paged attention share: the plan writes the work lists below into the workspace,
// the decode and the prefill kernels read them. Not for callers of kernels/gpu/attention.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/rope.h"

namespace encore::gpu {

// Piece of one decode request's context: what one cluster of thread blocks reads for one group of
// heads. 32 bytes, read as two 16-byte words. num_pieces = 0: this slot has no work.
struct alignas(16) DecodePiece {
  int32_t q_row;       // row of q and y
  int32_t first_page;  // the request's pages are page_ids[first_page ...]
  int32_t first_key;   // positions [first_key, end_key) of the request; first_key % 16 == 0
  int32_t end_key;
  int32_t partial;        // where this piece's partial result goes
  int32_t first_partial;  // the request's pieces are partials [first_partial, + num_pieces)
  int32_t num_pieces;
  int32_t request;
};

// Query rows of one prefill request that are processed together. 16 bytes, read as one word.
//   row i (0 <= i < num_rows) of the tile is row q_row + i of q and y, its position is
//   kv_end - num_rows + i, and it sees keys [0, that position], in pages
//   page_ids[first_page + key / page_size]
// Keys from kv_end on must not be read as values (they may hold NaN), and pages from
// first_page + ceil(kv_end / page_size) on belong to others.
struct alignas(16) PrefillTile {
  int32_t q_row;
  int32_t num_rows;  // 1 .. prefill_tile_rows()
  int32_t kv_end;    // keys that the last row sees
  int32_t first_page;
};

// Heads of q that one decode thread block serves (they share a KV head); the width of an mma tile.
inline constexpr int32_t kDecodeHeads = 8;

// How decode work is spread, fixed when recorded.
struct DecodeGrid {
  int32_t head_groups = 0;  // num_kv_heads * ceil(group / kDecodeHeads)
  int32_t cluster = 1;      // thread blocks that share a piece: a power of two up to 8
  int32_t places = 0;       // pieces (of all head groups) that the device holds at once, or more
  int32_t slots = 0;        // bound of the number of pieces
  // Rows of thread blocks. As many as slots, or so few that the device holds them all, each with
  // every rows-th piece: for steps that may have no decode work at all, which then cost little.
  int32_t rows = 0;
  int32_t min_piece_keys = 0;  // shorter pieces cost more to combine than they save
};
DecodeGrid decode_grid(const AttentionShape& shape, const AttentionBounds& bounds,
                       AttentionPath path);

// Rows of a prefill tile, and the number of tiles that recorded sizes can need: requests that bring
// two tokens or more, each with at most one tile that is not full.
int32_t prefill_tile_rows(const AttentionShape& shape, AttentionPath path);
int32_t max_prefill_tiles(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path);

// Pieces or tiles that the plan can order: it holds their lengths in 40 KB of shared memory.
inline constexpr int32_t kMaxPlanEntries = 10240;

// For a prefill kernel whose blocks fetch their tiles: attention_plan() zeroes them every step; a
// kernel that uses them leaves them zero.
inline constexpr int32_t kPrefillCounters = 64;

// The workspace, cut up. Device addresses.
struct AttentionWorkspace {
  DecodePiece* pieces = nullptr;   // [slots], longest first
  float* partial_sums = nullptr;   // [slots, head_groups, kDecodeHeads, head_dim], not normalised
  float* partial_stats = nullptr;  // [slots, head_groups, cluster, kDecodeHeads, 2]: max, sum
  int32_t* counters = nullptr;     // [max_requests, head_groups, cluster]: pieces finished
  PrefillTile* tiles = nullptr;    // [max_prefill_tiles], longest (largest kv_end) first
  int32_t* num_tiles = nullptr;    // [1]: live tiles
  int32_t* prefill_counters = nullptr;  // [kPrefillCounters]
  size_t bytes = 0;
};
AttentionWorkspace attention_workspace(const AttentionShape& shape, const AttentionBounds& bounds,
                                       AttentionPath path, void* base);

// Scores are kept in units of log 2, so that exp2 serves.
inline constexpr float kLog2E = 1.4426950408889634F;

LaunchError launch_attention_plan(const AttentionShape& shape, const AttentionBounds& bounds,
                                  AttentionPath path, const AttentionInputs& inputs,
                                  const AttentionWorkspace& workspace, const Launch& launch);

// The kernels of attention_run(). Each covers its own work list and leaves other rows of y alone.
// Arguments are checked before. shape.element is kBF16 or kF16; head_dim 64, 96 or 128; page_size
// 16, 32 or 64; tiles are prefill_tile_rows() high.
// mma.sync, sm_80 and later (attention_decode.cu).
LaunchError launch_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path, const AttentionArgs& args,
                          const AttentionWorkspace& workspace, const Launch& launch);
// The same for one bf16 request, with the rope kernel's work (attention_decode_rope.cu).
LaunchError launch_rope_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                               AttentionPath path, const RopeKvArgs& rope,
                               const AttentionArgs& args, const AttentionWorkspace& workspace,
                               const Launch& launch);
// kMfma and kWmma (attention_decode_matrix.cu).
LaunchError launch_decode_matrix(const AttentionShape& shape, const AttentionBounds& bounds,
                                 AttentionPath path, const AttentionArgs& args,
                                 const AttentionWorkspace& workspace, const Launch& launch);
// kMfma, kWmma and kMma (attention_prefill_matrix.cu).
LaunchError launch_prefill_matrix(const AttentionShape& shape, const AttentionBounds& bounds,
                                  AttentionPath path, const AttentionArgs& args,
                                  const AttentionWorkspace& workspace, const Launch& launch);
// Any of these shapes; mma.sync, sm_80 and later (attention_prefill_tensor.cu).
LaunchError launch_prefill_tensor(const AttentionShape& shape, const AttentionBounds& bounds,
                                  const AttentionArgs& args, const AttentionWorkspace& workspace,
                                  const Launch& launch);
// head_dim 64 and 128; TMA and wgmma (sm90/attention_prefill.cu).
LaunchError launch_prefill_hopper(const AttentionShape& shape, const AttentionBounds& bounds,
                                  const AttentionArgs& args, const AttentionWorkspace& workspace,
                                  const Launch& launch);
// Every row, any shape of kPlain; reads no workspace (attention_plain.cu).
LaunchError launch_plain(const AttentionShape& shape, const AttentionBounds& bounds,
                         const AttentionArgs& args, const Launch& launch);

}  // namespace encore::gpu
