// Drawing a token at random from those of a row that are kept.
#pragma once

#include "sample_select.cuh"

namespace encore::gpu {

// What stays after min_p, top_k and top_p, one after another.
struct Kept {
  uint32_t lowest = kLowestKey;  // by min_p
  Filter top_k;
  Filter top_p;
  __device__ bool operator()(uint32_t key, int32_t token) const {
    return key >= lowest && top_k.keeps(key, token) && top_p.keeps(key, token);
  }
};

__device__ inline Kept filter_row(const RowView& row, const RowSampling& p, ChooseScratch* s) {
  Kept kept;
  const float min_p = fminf(p.min_p, 1.0F);
  if (min_p > 0.0F) {
    kept.lowest = max(kept.lowest, key_of(row.highest + logf(min_p) / row.inverse_temperature));
  }
  if (p.top_k > 0 && p.top_k < row.tokens) {
    kept.top_k = select(row, kept.lowest, kept, {true, p.top_k, 0}, s);
  }
  if (p.top_p < 1.0F) {
    const uint32_t lowest = max(kept.lowest, kept.top_k.low);
    const Totals left = row_totals(row, lowest, kept, s);
    const double share = static_cast<double>(left.weight) * fmaxf(p.top_p, 0.0F);
    kept.top_p =
        select(row, lowest, kept, {false, 0, max(static_cast<uint64_t>(share), uint64_t{1})}, s);
  }
  return kept;
}

// The exclusive sum over the threads of a block before this one, and the sum over all.
struct Prefix {
  uint64_t before;
  uint64_t total;
};
__device__ inline uint64_t warp_sum_before(uint64_t value) {
  uint64_t sum = value;
  for (int delta = 1; delta < kWarpSize; delta *= 2) {
    const uint64_t other = shuffle_up(sum, delta);
    if (my_lane() >= delta) sum += other;
  }
  return sum - value;
}
__device__ inline Prefix block_prefix(uint64_t value, ChooseScratch* s) {
  Prefix prefix{warp_sum_before(value), 0};
  if (my_lane() == kWarpSize - 1) s->words[my_warp()] = prefix.before + value;
  __syncthreads();
  for (int i = 0; i < kChooseWarps; ++i) {
    if (i == my_warp()) prefix.before += prefix.total;
    prefix.total += s->words[i];
  }
  __syncthreads();
  return prefix;
}

// Finds the place where the running weight, in order of id, passes `uniform` of the total. From
// s->chunk_weights.
__device__ inline Place find_chunk(int32_t chunks, double uniform, ChooseScratch* s) {
  constexpr int kEach = kMaxChunks / kChooseThreads;  // neighbours that a thread owns
  const int32_t first = static_cast<int32_t>(threadIdx.x) * kEach;
  const int32_t end = min(first + kEach, chunks);
  uint64_t mine = 0;
  for (int32_t c = first; c < end; ++c) mine += s->chunk_weights[c];
  const Prefix prefix = block_prefix(mine, s);
  const uint64_t target =
      min(static_cast<uint64_t>(static_cast<double>(prefix.total) * uniform), prefix.total - 1);
  if (prefix.before <= target && target < prefix.before + mine) {
    uint64_t rest = target - prefix.before;
    int32_t chunk = first;
    while (rest >= s->chunk_weights[chunk]) rest -= s->chunk_weights[chunk++];
    s->place = {chunk, static_cast<double>(rest) / static_cast<double>(s->chunk_weights[chunk])};
  }
  __syncthreads();
  return s->place;
}

// The kept token of a chunk at which the running weight passes `share` of the chunk's. By one warp;
// its lanes own neighbours.
__device__ inline int32_t find_token(RowView row, const Kept& kept, const Place& place) {
  row.highest = row.chunk_max[place.chunk];  // if any is kept, one with this logit is
  const int32_t first = place.chunk * kChunk + my_lane() * kPerLane;
  uint64_t weights[kPerLane];
  uint64_t mine = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const float value = first + i < row.tokens ? row.x[first + i] : -ENCORE_GPU_INFINITY;
    weights[i] = kept(key_of(value), first + i) ? row.weight(value) : 0;
    mine += weights[i];
  }
  const uint64_t before = warp_sum_before(mine);
  const uint64_t total = shuffle(before + mine, kWarpSize - 1);
  const uint64_t target =
      min(static_cast<uint64_t>(static_cast<double>(total) * place.share), total - 1);
  int32_t token = 0;
  uint64_t running = before;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (running <= target && target < running + weights[i]) token = first + i;
    running += weights[i];
  }
  return shuffle(token, first_lane(ballot(before <= target && target < running)));
}

// The weight of each chunk's kept tokens to s->chunk_weights.
__device__ inline void weigh_chunks(const RowView& row, const Kept& kept, ChooseScratch* s) {
  __syncthreads();  // the list, in the same memory, has been read
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < kMaxChunks; c += kChooseThreads) {
    s->chunk_weights[c] = 0;
  }
  __syncthreads();
  const uint32_t lowest = max(kept.lowest, max(kept.top_k.low, kept.top_p.low));
  for_each_chunk(row, *s, lowest, [&](int32_t chunk, const float(&values)[kPerLane]) {
    uint64_t weight = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (kept(key_of(values[i]), token_at(chunk, i))) weight += row.weight(values[i]);
    }
    weight = warp_sum(weight);
    if (my_lane() == 0) s->chunk_weights[chunk] = weight;
  });
  __syncthreads();
}

// The same where all tokens are kept, from the sums of the scan.
__device__ inline void weigh_all_chunks(const RowView& row, const float* draw_sum,
                                        ChooseScratch* s) {
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks_of(row.tokens);
       c += kChooseThreads) {
    s->chunk_weights[c] = row.chunk_weight(row.chunk_max[c], draw_sum[c]);
  }
  __syncthreads();
}

// To all threads.
__device__ inline int32_t draw(const RowView& row, const RowSampling& p, const float* draw_sum,
                               ChooseScratch* s) {
  const bool filters = p.min_p > 0.0F || p.top_p < 1.0F || (p.top_k > 0 && p.top_k < row.tokens);
  Kept kept;
  if (filters) {
    load_chunk_keys(row, s);
    kept = filter_row(row, p, s);
    weigh_chunks(row, kept, s);
  } else {
    weigh_all_chunks(row, draw_sum, s);
  }
  const Place place = find_chunk(chunks_of(row.tokens), uniform_of(p.seed, p.position), s);
  return find_token(row, kept, place);
}

}  // namespace encore::gpu
