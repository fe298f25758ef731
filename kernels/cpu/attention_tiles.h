// Cuts a step's attention into tiles and shares them, or their splits, among the threads.
//
// A tile is up to kTileRows query rows of one request that share a KV head: row i is token
// i / group, head kv_head * group + i % group. A thread takes whole tiles, except that a tile of
// few rows (a decode) may be cut between splits; its partial results then meet in the workspace.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/attention.h"

namespace encore::kernels {

inline constexpr int32_t kTileRows = 48;     // rows of a prefill tile, if the group is not larger
inline constexpr int32_t kMaxTileRows = 64;  // the largest group
inline constexpr int32_t kSplittableRows = 16;  // or one token's, if the group is larger

namespace {  // compiled once for each instruction set: must not be shared between them

struct Tile {
  int32_t request;
  int32_t kv_head;
  int32_t first_token;  // row of q and out
  int32_t num_tokens;
  int32_t first_position;  // of first_token
  int32_t group;           // query heads a KV head

  int32_t rows() const { return num_tokens * group; }
  int32_t kv_end() const { return first_position + num_tokens; }
  int32_t splits() const { return (kv_end() + kAttentionSplit - 1) / kAttentionSplit; }
  // Positions that row i sees.
  int32_t limit(int32_t row) const { return first_position + row / group + 1; }
  bool splittable() const { return num_tokens == 1 || rows() <= kSplittableRows; }
};

// Work of `positions` of the tile: arithmetic by row, and reading keys and values.
inline int64_t tile_cost(const Tile& tile, int64_t positions) {
  constexpr int64_t kReadCost = 4;
  return positions * (tile.rows() + kReadCost);
}

// Calls visit(tile) for every tile of the step, always in the same order.
template <typename Visit>
void for_each_tile(const AttentionArgs& args, Visit visit) {
  const int32_t kv_heads = args.kv.layout.num_kv_heads;
  const int32_t group = args.num_heads / kv_heads;
  const int32_t tokens_per_tile = std::max(1, kTileRows / group);
  for (int32_t r = 0; r < *args.num_requests; ++r) {
    const int32_t begin = args.q_start[r];
    const int32_t end = args.q_start[r + 1];
    const int32_t start_position = args.kv_len[r] - (end - begin);
    for (int32_t h = 0; h < kv_heads; ++h) {
      for (int32_t t = begin; t < end; t += tokens_per_tile) {
        visit(
            Tile{r, h, t, std::min(tokens_per_tile, end - t), start_position + (t - begin), group});
      }
    }
  }
}

// Which part of the total cost each thread takes: thread t has costs [begin(t), begin(t + 1)).
struct Shares {
  int64_t total;
  int32_t count;

  int64_t begin(int32_t thread) const { return total * thread / count; }
  int32_t owner(int64_t cost) const {
    int32_t thread = 0;
    while (thread + 1 < count && begin(thread + 1) <= cost) ++thread;
    return thread;
  }
};

// A tile's splits that one thread does. The workspace slot of a tile cut between threads is the
// first one's index: it is unique, because such a tile reaches past the end of that thread's share.
struct TileShare {
  int32_t first_split;
  int32_t end_split;  // == first_split: nothing
  bool whole;         // all splits are this thread's
  int32_t slot;       // of the workspace, if not whole; meaningful if first_split < end_split
};

// The share of thread `index` in a tile whose cost starts at `start`. A split (or whole tile)
// belongs to the thread whose share holds its middle.
inline TileShare share_of_tile(const Tile& tile, int64_t start, const Shares& shares,
                               int32_t index) {
  const int64_t lo = shares.begin(index);
  const int64_t hi = index + 1 == shares.count ? shares.total + 1 : shares.begin(index + 1);
  const int64_t cost = tile_cost(tile, tile.kv_end());
  const int32_t splits = tile.splits();
  if (start + cost < lo || start >= hi) return {0, 0, false, 0};
  if (!tile.splittable() || splits == 1) {
    const int64_t middle = start + cost / 2;
    const bool mine = middle >= lo && middle < hi;
    return {0, mine ? splits : 0, true, 0};
  }
  const auto middle_of = [&](int32_t split) {
    const int64_t begin = static_cast<int64_t>(split) * kAttentionSplit;
    const int64_t end = std::min<int64_t>(begin + kAttentionSplit, tile.kv_end());
    return start + tile_cost(tile, begin) + tile_cost(tile, end - begin) / 2;
  };
  int32_t first = 0;
  while (first < splits && middle_of(first) < lo) ++first;
  int32_t end = first;
  while (end < splits && middle_of(end) < hi) ++end;
  const bool whole = first == 0 && end == splits;
  return {first, end, whole, whole || first == end ? 0 : shares.owner(middle_of(0))};
}

// Floats of one row's partial result: the sum of p * v, then maximum and sum of p.
inline int64_t partial_stride(int32_t head_dim) { return head_dim + 8; }

inline int32_t splittable_rows(int32_t group) { return std::max(kSplittableRows, group); }

}  // namespace
}  // namespace encore::kernels
