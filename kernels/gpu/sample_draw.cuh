// Drawing a token at random from those of a row that are kept.
#pragma once

#include "sample_select.cuh"

namespace encore::gpu {

// The kept tokens, and where they end in terms of the tally.
struct Selection {
  Kept kept;
  int32_t bin = kBins;    // what is tallied in the bins before it is kept; of itself, a part
  bool is_listed = true;  // s->list holds what is kept of `bin`, among others
};

// By top_k, then top_p. REQUIRES: the row's whole tally, of what min_p keeps.
template <int W>
__device__ inline Selection select(const RowView& row, const RowSampling& p, uint32_t by_min_p,
                                   const RowTally& tally, ChooseScratch<W>* s) {
  Selection selection;
  selection.kept.by_min_p = by_min_p;
  Totals left{};
  bool is_counted = false;  // left
#pragma unroll 1
  for (int step = 0; step < 2; ++step) {
    const bool by_count = step == 0;
    if (by_count ? p.top_k <= 0 || p.top_k >= row.tokens : p.top_p >= 1.0F) continue;
    load_tally(tally, s);
    Target target{by_count, p.top_k, 0};
    if (!by_count) {
      if (!is_counted) left = find_crossing({}, {false, 0, ~uint64_t{0}}, s).before;
      const double share = static_cast<double>(left.weight) * fmaxf(p.top_p, 0.0F);
      target.weight = max(static_cast<uint64_t>(share), uint64_t{1});
    }
    const Crossing crossing = find_crossing({}, target, s);
    if (crossing.bin == kBins) continue;  // fewer tokens than top_k
    const Undecided u = undecided_of(row, by_min_p, crossing);
    const Decision decision = decide(row, selection.kept, u, target, s);
    if (by_count) {  // not an assignment to one of two, which would put both in memory
      selection.kept.top_k = decision.filter;
    } else {
      selection.kept.top_p = decision.filter;
    }
    selection.bin = crossing.bin;
    selection.is_listed = crossing.count <= kListCapacity;
    left = decision.kept;
    is_counted = true;
  }
  return selection;
}

// The key below which min_p leaves nothing.
__device__ inline uint32_t lowest_by_min_p(const RowView& row, const RowSampling& p) {
  if (p.min_p <= 0.0F) return kLowestKey;
  const float log_share = logf(fminf(p.min_p, 1.0F));
  return max(kLowestKey, key_of(row.highest + log_share / row.inverse_temperature));
}

__device__ inline uint64_t share_of(uint64_t total, double share) {
  return min(static_cast<uint64_t>(static_cast<double>(total) * share), total - 1);
}

// Where the drawn token is: in these chunks, behind the weight `before` of them; or, where that is
// not known, behind `share` of their weight.
struct Aim {
  ChunkRange chunks;
  double share;
  bool is_exact = false;
  uint64_t before = 0;
};

// The chunk in which the running weight, in order of id, passes what is aimed at. From
// s->chunk_weights.
template <int W>
__device__ inline Place find_chunk(const Aim& aim, ChooseScratch<W>* s) {
  constexpr int kEach = kMaxChunks / kChooseThreads;  // neighbours that a thread owns
  const int32_t first = aim.chunks.begin + static_cast<int32_t>(threadIdx.x) * kEach;
  const int32_t end = min(first + kEach, aim.chunks.end);
  uint64_t mine = 0;
  for (int32_t c = first; c < end; ++c) mine += s->chunk_weights[c];
  const Prefix prefix = block_prefix({mine, 0}, s);
  const uint64_t before = prefix.before.weight;
  const uint64_t target = aim.is_exact ? aim.before : share_of(prefix.total.weight, aim.share);
  if (before <= target && target < before + mine) {
    uint64_t rest = target - before;
    int32_t chunk = first;
    while (rest >= s->chunk_weights[chunk]) rest -= s->chunk_weights[chunk++];
    s->place = {chunk, static_cast<double>(rest) / static_cast<double>(s->chunk_weights[chunk])};
  }
  __syncthreads();
  return s->place;
}

// The kept token of a chunk at which the running weight passes `share` of the chunk's. By one warp;
// its lanes own neighbours.
template <int W>
__device__ inline int32_t find_token(RowView row, const Kept& kept, const Place& place) {
  row.highest = row.chunk_max[place.chunk];  // if any is kept, one with this logit is
  const int32_t first = place.chunk * kChunk + my_lane<W>() * kPerLane<W>;
  uint64_t weights[kPerLane<W>];
  uint64_t mine = 0;
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {
    const float value = first + i < row.tokens ? row.x[first + i] : -ENCORE_GPU_INFINITY;
    weights[i] = kept(key_of(value), first + i) ? row.weight(value) : 0;
    mine += weights[i];
  }
  const uint64_t before = warp_sums<W>(mine) - mine;
  const uint64_t total = shuffle<W>(before + mine, W - 1);
  const uint64_t target = share_of(total, place.share);
  int32_t token = 0;
  uint64_t running = before;
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {
    if (running <= target && target < running + weights[i]) token = first + i;
    running += weights[i];
  }
  return shuffle<W>(token, first_lane(ballot<W>(before <= target && target < running)));
}

// The weight of each chunk's kept tokens to s->chunk_weights.
template <int W>
__device__ inline void weigh_chunks(const RowView& row, const Kept& kept, const ChunkRange& chunks,
                                    ChooseScratch<W>* s) {
  for (int32_t c = chunks.begin + static_cast<int32_t>(threadIdx.x); c < chunks.end;
       c += kChooseThreads) {
    s->chunk_weights[c] = 0;
  }
  __syncthreads();
  for_each_chunk(row, *s, kept.lowest(), chunks, [&](int32_t chunk, float(&values)[kPerLane<W>]) {
    uint64_t weight = 0;
    for_each_value<W>(chunk, values, [&](float value, int32_t token) {
      if (kept(key_of(value), token)) weight += row.weight(value);
    });
    weight = warp_sum<W>(weight);
    if (my_lane<W>() == 0) s->chunk_weights[chunk] = weight;
  });
  __syncthreads();
}

// The same of all chunks where all tokens are kept, from the sums of the scan.
template <int W>
__device__ inline void weigh_all_chunks(const RowView& row, const float* draw_sum,
                                        ChooseScratch<W>* s) {
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks_of(row.tokens);
       c += kChooseThreads) {
    s->chunk_weights[c] = row.chunk_weight(row.chunk_max[c], draw_sum[c]);
  }
  __syncthreads();
}

// The weight of each piece's kept tokens to s->piece_weights, from `above` and s->list. By a warp
// each.
template <int W>
__device__ inline void weigh_pieces(const RowView& row, const Selection& selection,
                                    const uint64_t* above, ChooseScratch<W>* s) {
  const int32_t size = selection.bin < kBins ? s->list_size : 0;
  for (int32_t piece = my_warp<W>(); piece < static_cast<int32_t>(gridDim.y);
       piece += kChooseWarps<W>) {
    const ChunkRange chunks = piece_chunks(row, piece);
    uint64_t weight = 0;
    for (int32_t i = my_lane<W>(); i < size; i += W) {
      const int32_t token = s->list.tokens[i];
      const int32_t chunk = token / kChunk;
      const bool is_here = chunk >= chunks.begin && chunk < chunks.end;
      if (is_here && selection.kept(s->list.keys[i], token)) weight += s->list.weights[i];
    }
    weight = warp_sum<W>(weight);
    if (my_lane<W>() == 0) {
      s->piece_weights[piece] = weight + above[piece * (kBins + 1) + selection.bin];
    }
  }
  __syncthreads();
}

// Aims at a share of the whole row by looking at one piece of it.
// REQUIRES: selection.is_listed.
template <int W>
__device__ inline Aim aim_at_piece(const RowView& row, const Selection& selection,
                                   const uint64_t* above, double share, ChooseScratch<W>* s) {
  weigh_pieces(row, selection, above, s);
  uint64_t total = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(gridDim.y); ++i) total += s->piece_weights[i];
  uint64_t before = share_of(total, share);
  int32_t piece = 0;
  while (before >= s->piece_weights[piece]) before -= s->piece_weights[piece++];
  return {piece_chunks(row, piece), share, true, before};
}

// What a filtered row's blocks left for the last of them.
struct TalliedRow {
  uint32_t by_min_p;
  const RowTally* tally;  // null: the row is not filtered
  const uint64_t* above;
};

// To all threads. REQUIRES: s->chunk_keys.
template <int W>
__device__ inline int32_t draw(const RowView& row, const RowSampling& p, const float* draw_sum,
                               const TalliedRow& tallied, ChooseScratch<W>* s) {
  Selection selection;
  Aim aim{all_chunks(row), uniform_of(p.seed, p.position)};
  if (tallied.tally != nullptr) {
    selection = select(row, p, tallied.by_min_p, *tallied.tally, s);
    if (selection.is_listed) aim = aim_at_piece(row, selection, tallied.above, aim.share, s);
    weigh_chunks(row, selection.kept, aim.chunks, s);
  } else {
    weigh_all_chunks(row, draw_sum, s);
  }
  return find_token<W>(row, selection.kept, find_chunk(aim, s));
}

}  // namespace encore::gpu
