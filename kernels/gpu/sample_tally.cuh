// Number and weight of a row's tokens by how far their logits are below the highest.
//
// A row that is filtered is tallied by several thread blocks, a piece each. Sums are of integers,
// so they do not depend on the blocks' order. The block that comes last has the whole row's tally,
// from which it knows the bin that holds a threshold without looking at the row again; and for each
// piece the weight above each bin, which leads it to the piece that holds the drawn token.
#pragma once

#include "sample_block.cuh"

namespace encore::gpu {

inline constexpr int kBinsPerThread = kBins / kChooseThreads;  // neighbours
inline constexpr float kBinsPerUnit = 64.0F;                   // of a logit

// Falls with the logit. The last bin holds all that are further below the highest.
__device__ inline int32_t bin_of(const RowView& row, float value) {
  return static_cast<int32_t>(
      fminf((row.highest - value) * kBinsPerUnit, static_cast<float>(kBins - 1)));
}

template <int W>
__device__ inline void clear_tally(ChooseScratch<W>* s) {
  for (int32_t bin = static_cast<int32_t>(threadIdx.x); bin < kBins; bin += kChooseThreads) {
    s->tally.weights_low[bin] = 0;
    s->tally.weights_high[bin] = 0;
    s->tally.counts[bin] = 0;
  }
  __syncthreads();
}

template <int W>
__device__ inline void add_to_tally(int32_t bin, uint64_t weight, ChooseScratch<W>* s) {
  const auto low = static_cast<uint32_t>(weight);
  const uint32_t before = atomicAdd(&s->tally.weights_low[bin], low);
  const uint32_t carry = before + low < before ? 1 : 0;
  const uint32_t high = static_cast<uint32_t>(weight >> 32) + carry;
  if (high != 0) atomicAdd(&s->tally.weights_high[bin], high);
  atomicAdd(&s->tally.counts[bin], 1U);
}

template <int W>
__device__ inline Totals tally_of(int32_t bin, const ChooseScratch<W>& s) {
  return {s.tally.weights_low[bin] | static_cast<uint64_t>(s.tally.weights_high[bin]) << 32,
          static_cast<int32_t>(s.tally.counts[bin])};
}

// The chunks of a piece, the same number in each but the last ones.
__device__ inline ChunkRange piece_chunks(const RowView& row, int32_t piece) {
  const int32_t chunks = chunks_of(row.tokens);
  const auto pieces = static_cast<int32_t>(gridDim.y);
  const int32_t each = (chunks + pieces - 1) / pieces;
  return {min(piece * each, chunks), min((piece + 1) * each, chunks)};
}

// Adds the block's tally to the row's, and writes its running sums to `above`.
template <int W>
__device__ inline void publish_tally(RowTally* row, uint64_t* above, ChooseScratch<W>* s) {
  const int32_t first = static_cast<int32_t>(threadIdx.x) * kBinsPerThread;
  Totals mine{};
  for (int32_t bin = first; bin < first + kBinsPerThread; ++bin) {
    const Totals part = tally_of(bin, *s);
    mine += part;
    if (part.count == 0) continue;
    atomicAdd(&row->weights[bin], static_cast<unsigned long long>(part.weight));
    atomicAdd(&row->counts[bin], static_cast<uint32_t>(part.count));
  }
  const Prefix prefix = block_prefix(mine, s);
  uint64_t running = prefix.before.weight;
  for (int32_t bin = first; bin < first + kBinsPerThread; ++bin) {
    above[bin] = running;
    running += tally_of(bin, *s).weight;
  }
  if (first + kBinsPerThread == kBins) above[kBins] = running;
}

// Tallies the block's piece of the row, of keys from `lowest` on. Whether the block is the row's
// last: then all pieces' results are there for it. To all threads. `above`: the row's.
// REQUIRES: s->chunk_keys.
template <int W>
__device__ inline bool tally_piece(const RowView& view, uint32_t lowest, RowTally* row,
                                   uint64_t* above, ChooseScratch<W>* s) {
  clear_tally(s);
  const ChunkRange chunks = piece_chunks(view, static_cast<int32_t>(blockIdx.y));
  for_each_token(view, *s, lowest, chunks, [&](float value, int32_t) {
    if (key_of(value) >= lowest) add_to_tally(bin_of(view, value), view.weight(value), s);
  });
  __syncthreads();
  publish_tally(row, above + static_cast<int64_t>(blockIdx.y) * (kBins + 1), s);
  __syncthreads();  // before the fence of a thread that speaks for all
  int last = 0;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&row->pieces_done, 1U) + 1 == gridDim.y ? 1 : 0;
    __threadfence();
  }
  return __syncthreads_or(last) != 0;
}

template <int W>
__device__ inline void load_tally(const RowTally& row, ChooseScratch<W>* s) {
  for (int32_t bin = static_cast<int32_t>(threadIdx.x); bin < kBins; bin += kChooseThreads) {
    const uint64_t weight = row.weights[bin];
    s->tally.weights_low[bin] = static_cast<uint32_t>(weight);
    s->tally.weights_high[bin] = static_cast<uint32_t>(weight >> 32);
    s->tally.counts[bin] = row.counts[bin];
  }
  __syncthreads();
}

// How much must be kept: at least `count` tokens, or at least `weight`.
struct Target {
  bool by_count;
  int32_t count;
  uint64_t weight;
  __device__ bool reached(const Totals& totals) const {
    return by_count ? totals.count >= count : totals.weight >= weight;
  }
};

// Where `before` and then the bins of s->tally, in order, reach the target. To all threads.
template <int W>
__device__ inline Crossing find_crossing(const Totals& before, const Target& target,
                                         ChooseScratch<W>* s) {
  const int32_t first = static_cast<int32_t>(threadIdx.x) * kBinsPerThread;
  Totals mine{};
  for (int32_t bin = first; bin < first + kBinsPerThread; ++bin) mine += tally_of(bin, *s);
  const Prefix prefix = block_prefix(mine, s);
  Totals all = before;
  all += prefix.total;
  if (!target.reached(all)) return {all, kBins, 0};
  Totals running = before;
  running += prefix.before;
  for (int32_t bin = first; bin < first + kBinsPerThread; ++bin) {
    const Totals part = tally_of(bin, *s);
    Totals with = running;
    with += part;
    if (!target.reached(running) && target.reached(with)) s->crossing = {running, bin, part.count};
    running = with;
  }
  __syncthreads();
  return s->crossing;
}

}  // namespace encore::gpu
