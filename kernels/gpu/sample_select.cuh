// Which tokens of a row stay: the highest, by number or by their share of probability.
//
// No sorting: a tally over bins of logits leaves one bin undecided, and finer tallies narrow that
// until the undecided fit a list in shared memory, where each finds its own rank.
#pragma once

#include "sample_tally.cuh"

namespace encore::gpu {

// Tokens of which the target needs some: keys in [low, high), and in `bin` unless that is negative.
// `before`: those above them, which do not reach the target.
struct Undecided {
  uint32_t low;
  uint32_t high;
  int32_t bin;
  Totals before;
  int32_t count;
  __device__ bool holds(const RowView& row, float value) const {
    const uint32_t key = key_of(value);
    return key >= low && key < high && (bin < 0 || bin_of(row, value) == bin);
  }
};

// Number and weight of the tokens with keys of `lowest` or above that accepts(value, token).
// REQUIRES, here and below: lowest >= kLowestKey, which leaves out what is past the row's tokens.
template <int W, typename Accepts>
__device__ Totals row_totals(const RowView& row, uint32_t lowest, Accepts accepts,
                             ChooseScratch<W>* s) {
  Totals mine{};
  for_each_token(row, *s, lowest, all_chunks(row), [&](float value, int32_t token) {
    if (key_of(value) >= lowest && accepts(value, token)) mine += {row.weight(value), 1};
  });
  return block_totals(mine, s);
}

// Lists the tokens with keys of `lowest` or above that accepts(value, token), in any order.
// REQUIRES: at most kListCapacity.
template <int W, typename Accepts>
__device__ void list_tokens(const RowView& row, uint32_t lowest, Accepts accepts,
                            ChooseScratch<W>* s) {
  if (threadIdx.x == 0) s->list_size = 0;  // who read it has passed a barrier since
  __syncthreads();
  for_each_token(row, *s, lowest, all_chunks(row), [&](float value, int32_t token) {
    if (key_of(value) < lowest || !accepts(value, token)) return;
    const int32_t at = atomicAdd(&s->list_size, 1);
    s->list.weights[at] = row.weight(value);
    s->list.keys[at] = key_of(value);
    s->list.tokens[at] = token;
  });
  __syncthreads();
}

// Keeps of the undecided those that the target needs. Each thread ranks one of them.
// REQUIRES: they fit the list.
template <int W>
__device__ inline Decision decide_by_rank(const RowView& row, const Kept& kept, const Undecided& u,
                                          const Target& target, ChooseScratch<W>* s) {
  list_tokens(
      row, u.low,
      [&](float value, int32_t token) { return u.holds(row, value) && kept(key_of(value), token); },
      s);
  const auto i = static_cast<int32_t>(threadIdx.x);
  const int32_t size = s->list_size;
  if (i < size) {
    const uint32_t key = s->list.keys[i];
    const int32_t token = s->list.tokens[i];
    Totals before = u.before;
    for (int32_t j = 0; j < size; ++j) {
      const uint32_t other = s->list.keys[j];
      if (other > key || (other == key && s->list.tokens[j] < token)) {
        before += {s->list.weights[j], 1};
      }
    }
    Totals with = before;
    with += {s->list.weights[i], 1};
    if (!target.reached(before) && target.reached(with)) {
      s->decision = {{key, key + 1, token}, with};
    }
  }
  __syncthreads();
  return s->decision;
}

// The same where the undecided are equals, too many for the list: searches for the last id.
template <int W>
__device__ inline Decision decide_ties(const RowView& row, const Kept& kept, const Undecided& u,
                                       const Target& target, ChooseScratch<W>* s) {
  const auto totals_up_to = [&](int32_t last) {
    const auto counts = [&](float value, int32_t token) {
      return token <= last && u.holds(row, value) && kept(key_of(value), token);
    };
    Totals totals = row_totals(row, u.low, counts, s);
    totals += u.before;
    return totals;
  };
  int32_t too_few = -1;
  int32_t enough = row.tokens - 1;
  while (enough - too_few > 1) {
    const int32_t middle = too_few + (enough - too_few) / 2;
    if (target.reached(totals_up_to(middle))) {
      enough = middle;
    } else {
      too_few = middle;
    }
  }
  return {{u.low, u.high, enough}, totals_up_to(enough)};
}

// Tallies the undecided by key, and leaves those of one bin.
template <int W>
__device__ inline void narrow(const RowView& row, const Kept& kept, const Target& target,
                              Undecided* u, ChooseScratch<W>* s) {
  int shift = 0;
  while ((u->high - u->low - 1) >> shift >= kBins) ++shift;
  clear_tally(s);
  for_each_token(row, *s, u->low, all_chunks(row), [&](float value, int32_t token) {
    const uint32_t key = key_of(value);
    if (!u->holds(row, value) || !kept(key, token)) return;
    const auto bin = static_cast<int32_t>((key - u->low) >> shift);
    add_to_tally(kBins - 1 - bin, row.weight(value), s);
  });
  __syncthreads();
  const Crossing crossing = find_crossing(u->before, target, s);
  u->low += static_cast<uint32_t>(kBins - 1 - crossing.bin) << shift;
  u->high = u->low + min(u->high - u->low, uint32_t{1} << shift);
  u->before = crossing.before;
  u->count = crossing.count;
}

// Keeps of the undecided those that the target needs.
template <int W>
__device__ inline Decision decide(const RowView& row, const Kept& kept, Undecided u,
                                  const Target& target, ChooseScratch<W>* s) {
  while (u.count > kListCapacity && u.high - u.low > 1) narrow(row, kept, target, &u, s);
  return u.count <= kListCapacity ? decide_by_rank(row, kept, u, target, s)
                                  : decide_ties(row, kept, u, target, s);
}

// The tokens of a bin. The bounds have a bin to spare for rounding.
__device__ inline Undecided undecided_of(const RowView& row, uint32_t lowest, const Crossing& c) {
  const auto bin = static_cast<float>(c.bin);
  Undecided u{lowest, 0xFFFFFFFFU, c.bin, c.before, c.count};
  if (c.bin < kBins - 1) u.low = max(lowest, key_of(row.highest - (bin + 2.0F) / kBinsPerUnit));
  if (c.bin > 0) u.high = key_of(row.highest - (bin - 1.0F) / kBinsPerUnit) + 1;
  return u;
}

// The `wanted` highest of a row, by falling logit and rising id; all if there are not so many.
// Guesses first: keys whose weight is 1e-2, 1e-4 and 1e-6 of the highest.
// REQUIRES: load_chunk_keys(row) before.
template <int W>
__device__ inline Filter highest_tokens(const RowView& row, int32_t wanted, ChooseScratch<W>* s) {
  const Target target{true, wanted, 0};
  const auto all = [](float, int32_t) { return true; };
  Undecided u{kLowestKey, 0xFFFFFFFFU, -1, {}, 0};
  Totals totals{};
  constexpr int kGuesses = 4;
#pragma unroll 1
  for (int guess = 1; guess <= kGuesses; ++guess) {
    const float log_weight = -4.6F * static_cast<float>(guess) / row.inverse_temperature;
    u.low = guess == kGuesses ? kLowestKey : max(kLowestKey, key_of(row.highest + log_weight));
    totals = row_totals(row, u.low, all, s);
    if (target.reached(totals) || u.low == kLowestKey) break;
    u.high = u.low;
    u.before = totals;
  }
  if (!target.reached(totals)) return {kLowestKey, kLowestKey, kNoLastToken};
  u.count = totals.count - u.before.count;
  return decide(row, {}, u, target, s).filter;
}

}  // namespace encore::gpu
