// What a thread block of a prefill kernel works on: kPrefillRows rows, which are the heads that
// share a KV head (as many as fit), side by side for each query of a tile.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "attention_internal.h"
#include "vendor.h"

namespace encore::gpu {

inline constexpr int kPrefillRows = 64;

struct PrefillParams {
  const PrefillTile* tiles;
  const int32_t* num_tiles;
  const int32_t* page_ids;
  const std::byte* pages;
  int64_t page_bytes;
  int64_t half_bytes;  // from a page's keys to its values
  const void* q;
  void* y;
  int64_t q_stride;
  int64_t y_stride;
  float scale;            // with log2(e)
  int32_t group;          // heads of q for each KV head
  int32_t packed;         // of those, how many a thread block takes
  int32_t groups_per_kv;  // ceil(group / packed): thread blocks for a tile and KV head
  int32_t head_groups;    // num_kv_heads * groups_per_kv
  int32_t page_shift;     // log2 of the page size
};

inline PrefillParams prefill_params(const AttentionShape& shape, const AttentionArgs& args,
                                    const AttentionWorkspace& workspace, AttentionPath path) {
  const KvLayout& kv = shape.kv;
  PrefillParams params{};
  params.tiles = workspace.tiles;
  params.num_tiles = workspace.num_tiles;
  params.page_ids = args.inputs.page_ids;
  params.pages = args.kv.data;
  params.page_bytes = kv.page_bytes();
  params.half_bytes = kv.half_elements() * element_bytes(kv.element);
  params.q = args.q;
  params.y = args.y;
  params.q_stride = args.q_stride;
  params.y_stride = args.y_stride;
  params.scale = args.scale * kLog2E;
  params.group = shape.num_heads / kv.num_kv_heads;
  params.packed = std::min(params.group, kPrefillRows / prefill_tile_rows(shape, path));
  params.groups_per_kv = (params.group + params.packed - 1) / params.packed;
  params.head_groups = kv.num_kv_heads * params.groups_per_kv;
  params.page_shift = std::countr_zero(static_cast<uint32_t>(kv.page_size));
  return params;
}

struct PrefillWork {
  PrefillTile tile;
  int kv_head;
  int head;       // the first; of q
  int num_heads;  // 1 .. packed
  int packed;

  // Of item 0 .. num_tiles * head_groups - 1.
  __device__ static PrefillWork find(const PrefillParams& params, int item) {
    const int4 words = reinterpret_cast<const int4*>(params.tiles)[item / params.head_groups];
    const int head_group = item % params.head_groups;
    const int first = head_group % params.groups_per_kv * params.packed;
    PrefillWork work;
    work.tile = PrefillTile{words.x, words.y, words.z, words.w};
    work.kv_head = head_group / params.groups_per_kv;
    work.head = work.kv_head * params.group + first;
    work.num_heads = min(params.packed, params.group - first);
    work.packed = params.packed;
    return work;
  }

  // Of row 0 .. kPrefillRows - 1: its query in the tile and its head from the first; whether there
  // are such.
  __device__ int query_of(int row) const { return row / packed; }
  __device__ int head_of(int row) const { return row % packed; }
  __device__ bool is_live(int row) const {
    return query_of(row) < tile.num_rows && head_of(row) < num_heads;
  }
  // The last key that a row sees. Rows without a query see what the last one does.
  __device__ int position(int row) const {
    return tile.kv_end - tile.num_rows + min(query_of(row), tile.num_rows - 1);
  }
  // Where a live row's vector begins in q or y.
  __device__ int64_t offset(int row, int64_t stride, int head_dim) const {
    return (tile.q_row + query_of(row)) * stride + int64_t{head + head_of(row)} * head_dim;
  }
};

}  // namespace encore::gpu
