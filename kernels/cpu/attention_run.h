// What all levels of attention share: tiles in, partial results merged, rows out.
//
// An Engine is one level's arithmetic:
//   static constexpr int32_t kRows                      most rows of one call of partial()
//   static float exp2(float x)                          2^x for x <= 0, exactly 0 for -infinity
//   static void partial(const TileView&, int32_t row, int32_t rows, int32_t split,
//                       float* const* out)              partial results of `rows` rows, one split
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "attention_tiles.h"

namespace encore::kernels {
namespace {  // compiled once for each instruction set: must not be shared between them

inline constexpr double kLog2E = 1.4426950408889634;

struct TileView {
  const KvPages* kv;
  const int32_t* page_ids;  // of the request
  Tile tile;
  const float* q;  // [rows, head_dim], times scale * log2(e)
  float* scores;   // [Engine::kRows, kAttentionSplit]
};

// A thread's scratch: q, running results and scores of one tile.
struct TileScratch {
  float* q;         // [kMaxTileRows, head_dim]
  float* state;     // [kMaxTileRows, partial_stride]
  float* partials;  // [8, partial_stride]
  float* scores;    // [8, kAttentionSplit]

  TileScratch(std::byte* scratch, int32_t head_dim)
      : q(reinterpret_cast<float*>(scratch)),
        state(q + kMaxTileRows * head_dim),
        partials(state + kMaxTileRows * partial_stride(head_dim)),
        scores(partials + 8 * partial_stride(head_dim)) {}
};

inline void load_queries(const AttentionArgs& args, const Tile& tile, float* q) {
  const int32_t head_dim = args.kv.layout.head_dim;
  const auto factor = static_cast<float>(args.scale * kLog2E);
  for (int32_t row = 0; row < tile.rows(); ++row) {
    const int64_t head = tile.kv_head * tile.group + row % tile.group;
    const float* source =
        args.q + (tile.first_token + row / tile.group) * args.q_stride + head * head_dim;
    for (int32_t d = 0; d < head_dim; ++d) q[row * head_dim + d] = source[d] * factor;
  }
}

// state <- state merged with partial; the first split is copied.
template <typename Engine>
void merge(float* state, const float* partial, int32_t head_dim, bool first) {
  if (first) {
    std::copy_n(partial, head_dim + 2, state);
    return;
  }
  const float maximum = std::max(state[head_dim], partial[head_dim]);
  const float a = Engine::exp2(state[head_dim] - maximum);
  const float b = Engine::exp2(partial[head_dim] - maximum);
  for (int32_t d = 0; d < head_dim; ++d) state[d] = state[d] * a + partial[d] * b;
  state[head_dim] = maximum;
  state[head_dim + 1] = state[head_dim + 1] * a + partial[head_dim + 1] * b;
}

inline void write_row(const AttentionArgs& args, const Tile& tile, int32_t row,
                      const float* state) {
  const int32_t head_dim = args.kv.layout.head_dim;
  const int64_t head = tile.kv_head * tile.group + row % tile.group;
  float* out = args.out + (tile.first_token + row / tile.group) * args.out_stride + head * head_dim;
  const float inverse = 1.0F / state[head_dim + 1];
  for (int32_t d = 0; d < head_dim; ++d) out[d] = state[d] * inverse;
}

// A tile that is this thread's alone.
template <typename Engine>
void run_whole_tile(const AttentionArgs& args, const TileView& view, const TileScratch& scratch) {
  const Tile& tile = view.tile;
  const int32_t head_dim = args.kv.layout.head_dim;
  const int64_t stride = partial_stride(head_dim);
  float* out[Engine::kRows];
  for (int32_t i = 0; i < Engine::kRows; ++i) out[i] = scratch.partials + i * stride;
  for (int32_t split = 0; split < tile.splits(); ++split) {
    for (int32_t row = 0; row < tile.rows(); row += Engine::kRows) {
      const int32_t rows = std::min(Engine::kRows, tile.rows() - row);
      if (tile.limit(row + rows - 1) <= split * kAttentionSplit) continue;
      Engine::partial(view, row, rows, split, out);
      for (int32_t i = 0; i < rows; ++i) {
        if (tile.limit(row + i) <= split * kAttentionSplit) continue;
        merge<Engine>(scratch.state + (row + i) * stride, out[i], head_dim, split == 0);
      }
    }
  }
  for (int32_t row = 0; row < tile.rows(); ++row) {
    write_row(args, tile, row, scratch.state + row * stride);
  }
}

// Where partial results of a tile that was cut go: [split, row, partial_stride].
struct PartialView {
  float* base;
  int64_t split_stride;
  int64_t row_stride;

  PartialView(const AttentionArgs& args, int32_t slot, int32_t count) {
    const int32_t group = args.num_heads / args.kv.layout.num_kv_heads;
    row_stride = partial_stride(args.kv.layout.head_dim);
    split_stride = row_stride * splittable_rows(group);
    const int64_t floats = args.workspace_bytes / static_cast<int64_t>(sizeof(float)) / count;
    base = args.workspace + slot * (floats / 16 * 16);
  }
  float* at(int32_t split, int32_t row) const {
    return base + split * split_stride + row * row_stride;
  }
};

template <typename Engine>
void run_some_splits(const TileView& view, const TileShare& share, const PartialView& partials) {
  float* out[Engine::kRows];
  for (int32_t split = share.first_split; split < share.end_split; ++split) {
    for (int32_t row = 0; row < view.tile.rows(); row += Engine::kRows) {
      const int32_t rows = std::min(Engine::kRows, view.tile.rows() - row);
      if (view.tile.limit(row + rows - 1) <= split * kAttentionSplit) continue;
      for (int32_t i = 0; i < rows; ++i) out[i] = partials.at(split, row + i);
      Engine::partial(view, row, rows, split, out);
    }
  }
}

// Merges the splits of a cut tile, in order, into the first one's place, and writes the rows.
template <typename Engine>
void merge_cut_tile(const AttentionArgs& args, const Tile& tile, const PartialView& partials) {
  for (int32_t row = 0; row < tile.rows(); ++row) {
    float* state = partials.at(0, row);
    for (int32_t split = 1; split * kAttentionSplit < tile.limit(row); ++split) {
      merge<Engine>(state, partials.at(split, row), args.kv.layout.head_dim, false);
    }
    write_row(args, tile, row, state);
  }
}

template <typename Engine>
void run_attention(const AttentionArgs& args, const Worker& worker) {
  const int32_t head_dim = args.kv.layout.head_dim;
  const TileScratch scratch(worker.scratch, head_dim);
  Shares shares{0, worker.count};
  for_each_tile(args, [&](const Tile& tile) { shares.total += tile_cost(tile, tile.kv_end()); });

  int64_t start = 0;
  Tile cut{};  // the tile that this thread starts and others end
  bool has_cut = false;
  for_each_tile(args, [&](const Tile& tile) {
    const TileShare share = share_of_tile(tile, start, shares, worker.index);
    start += tile_cost(tile, tile.kv_end());
    if (share.first_split == share.end_split) return;
    load_queries(args, tile, scratch.q);
    const TileView view{&args.kv, args.page_ids + args.page_start[tile.request], tile, scratch.q,
                        scratch.scores};
    if (share.whole) {
      run_whole_tile<Engine>(args, view, scratch);
      return;
    }
    run_some_splits<Engine>(view, share, PartialView(args, share.slot, worker.count));
    if (share.first_split == 0) {
      cut = tile;
      has_cut = true;
    }
  });
  worker.wait();
  if (has_cut) {
    merge_cut_tile<Engine>(args, cut, PartialView(args, worker.index, worker.count));
  }
}

}  // namespace
}  // namespace encore::kernels
