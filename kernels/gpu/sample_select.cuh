// Which tokens of a row stay: the highest, by number or by their share of probability.
//
// No sorting: the lowest kept logit is searched for, first among guesses, then by halving the range
// of keys that is undecided, until the undecided fit a list in shared memory, where each finds its
// own rank. One thread block a row.
#pragma once

#include "sample_row.cuh"

namespace encore::gpu {

inline constexpr int kChooseThreads = 512;
inline constexpr int kChooseWarps = kChooseThreads / kWarpSize;
inline constexpr int32_t kListCapacity = kChooseThreads;

inline constexpr int32_t kNoLastToken = 0x7FFFFFFF;

struct Totals {
  uint64_t weight;
  int32_t count;
};

// Tokens that are kept: with a key of `high` or above; and, of those from `low` on, those with ids
// up to last_token.
//
// As large as the widest load of shared memory: a 16-byte load of an unpadded one would take in its
// neighbour (list_size, which a thread that is ahead may be clearing: a race, though of a value
// that is dropped).
struct alignas(16) Filter {
  uint32_t low = 0;
  uint32_t high = 0;
  int32_t last_token = kNoLastToken;
  __device__ bool keeps(uint32_t key, int32_t token) const {
    return key >= high || (key >= low && token <= last_token);
  }
};

// A chunk, and how far into its weight, as a share of it.
struct Place {
  int32_t chunk;
  double share;
};

// Shared memory of the block.
struct ChooseScratch {
  uint32_t chunk_keys[kMaxChunks];  // of the row's chunk maxima
  union {
    struct {
      uint64_t weights[kListCapacity];
      uint32_t keys[kListCapacity];
      int32_t tokens[kListCapacity];
    } list;
    uint64_t chunk_weights[kMaxChunks];
  };
  int32_t list_size;
  Filter filter;
  Place place;
  Totals totals[kChooseWarps];
  uint64_t words[kChooseWarps];
};

__device__ inline int32_t my_warp() { return static_cast<int32_t>(threadIdx.x) / kWarpSize; }
__device__ inline int32_t my_lane() { return static_cast<int32_t>(threadIdx.x) % kWarpSize; }

// All threads get the maximum over the block.
__device__ inline uint64_t block_max(uint64_t value, ChooseScratch* s) {
  value = warp_max(value);
  if (my_lane() == 0) s->words[my_warp()] = value;
  __syncthreads();
  for (const uint64_t other : s->words) value = max(value, other);
  __syncthreads();
  return value;
}

// All threads get the sums over the block.
__device__ inline Totals block_totals(Totals totals, ChooseScratch* s) {
  totals = {warp_sum(totals.weight), warp_sum(totals.count)};
  if (my_lane() == 0) s->totals[my_warp()] = totals;
  __syncthreads();
  Totals sum{};
  for (const Totals& part : s->totals) {
    sum.weight += part.weight;
    sum.count += part.count;
  }
  __syncthreads();
  return sum;
}

// Keys of the chunks' maxima to shared memory, for for_each_token.
__device__ inline void load_chunk_keys(const RowView& row, ChooseScratch* s) {
  __syncthreads();
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks_of(row.tokens);
       c += kChooseThreads) {
    s->chunk_keys[c] = key_of(row.chunk_max[c]);
  }
  __syncthreads();
}

// Calls visit(chunk, values), by whole warps, for each chunk that has a key of `lowest` or above.
template <typename Visit>
__device__ void for_each_chunk(const RowView& row, const ChooseScratch& s, uint32_t lowest,
                               Visit visit) {
  const int32_t chunks = chunks_of(row.tokens);
  for (int32_t base = 0; base < chunks; base += kChooseWarps * kWarpSize) {
    const int32_t mine = base + my_lane() * kChooseWarps + my_warp();
    LaneMask wanted = ballot(mine < chunks && s.chunk_keys[mine] >= lowest);
    for (; wanted != 0; wanted &= wanted - 1) {
      const int32_t chunk = base + first_lane(wanted) * kChooseWarps + my_warp();
      float values[kPerLane];
      load_chunk(row.x, row.tokens, chunk, values);
      visit(chunk, values);
    }
  }
}

__device__ inline int32_t token_at(int32_t chunk, int i) {
  return chunk * kChunk + i * kWarpSize + my_lane();
}

// The key of the lowest logit above -infinity.
inline constexpr uint32_t kLowestKey = 0x00800000U;

// Number and weight of the tokens with keys of `lowest` or above that keeps(key, token) accepts.
// REQUIRES, here and below: lowest >= kLowestKey, which leaves out what is past the row's tokens.
template <typename Keeps>
__device__ Totals row_totals(const RowView& row, uint32_t lowest, Keeps keeps, ChooseScratch* s) {
  Totals mine{};
  for_each_chunk(row, *s, lowest, [&](int32_t chunk, const float(&values)[kPerLane]) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const uint32_t key = key_of(values[i]);
      if (key < lowest || !keeps(key, token_at(chunk, i))) continue;
      mine.weight += row.weight(values[i]);
      ++mine.count;
    }
  });
  return block_totals(mine, s);
}

// Lists the tokens with keys in [low, high) that keeps(key, token) accepts, in any order.
// REQUIRES: at most kListCapacity.
template <typename Keeps>
__device__ void list_tokens(const RowView& row, uint32_t low, uint32_t high, Keeps keeps,
                            ChooseScratch* s) {
  if (threadIdx.x == 0) s->list_size = 0;
  __syncthreads();
  for_each_chunk(row, *s, low, [&](int32_t chunk, const float(&values)[kPerLane]) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const uint32_t key = key_of(values[i]);
      const int32_t token = token_at(chunk, i);
      if (key < low || key >= high || !keeps(key, token)) continue;
      const int32_t at = atomicAdd(&s->list_size, 1);
      s->list.weights[at] = row.weight(values[i]);
      s->list.keys[at] = key;
      s->list.tokens[at] = token;
    }
  });
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

// Keys in [low, high) are undecided: those from `high` on do not reach the target, those from `low`
// on do.
struct Bracket {
  uint32_t low;
  uint32_t high;
  Totals from_low;
  Totals from_high;
  __device__ int32_t undecided() const { return from_low.count - from_high.count; }
  // Takes what the keys from `middle` on add up to.
  __device__ void narrow(uint32_t middle, const Totals& totals, bool reached) {
    (reached ? low : high) = middle;
    (reached ? from_low : from_high) = totals;
  }
};

// Narrows by keys whose weight is 1e-2, 1e-3, 1e-4 and 1e-6 of the highest: most targets are
// reached by few tokens.
template <typename Keeps>
__device__ Bracket guess_bracket(const RowView& row, uint32_t lowest, Keeps keeps,
                                 const Target& target, ChooseScratch* s) {
  Bracket bracket{lowest, 0xFFFFFFFFU, {}, {}};
  for (const float log_weight : {-4.6F, -6.9F, -9.2F, -13.8F}) {
    const uint32_t guess = key_of(row.highest + log_weight / row.inverse_temperature);
    if (guess <= lowest) break;
    const Totals totals = row_totals(row, guess, keeps, s);
    bracket.narrow(guess, totals, target.reached(totals));
    if (bracket.low == guess) return bracket;
  }
  bracket.from_low = row_totals(row, lowest, keeps, s);
  return bracket;
}

// The filter that keeps the undecided tokens that the target needs. Each thread ranks one of them.
// REQUIRES: they fit the list.
template <typename Keeps>
__device__ Filter decide_by_rank(const RowView& row, const Bracket& b, Keeps keeps,
                                 const Target& target, ChooseScratch* s) {
  list_tokens(row, b.low, b.high, keeps, s);
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < s->list_size) {
    const uint32_t key = s->list.keys[i];
    const int32_t token = s->list.tokens[i];
    Totals before = b.from_high;
    for (int32_t j = 0; j < s->list_size; ++j) {
      const uint32_t other = s->list.keys[j];
      if (other > key || (other == key && s->list.tokens[j] < token)) {
        before.weight += s->list.weights[j];
        ++before.count;
      }
    }
    const Totals with = {before.weight + s->list.weights[i], before.count + 1};
    if (!target.reached(before) && target.reached(with)) s->filter = {key, key + 1, token};
  }
  __syncthreads();
  return s->filter;
}

// The same where the undecided are equals, too many for the list: searches for the last id.
template <typename Keeps>
__device__ Filter decide_ties(const RowView& row, const Bracket& b, Keeps keeps,
                              const Target& target, ChooseScratch* s) {
  int32_t too_few = -1;
  int32_t enough = row.tokens - 1;
  while (enough - too_few > 1) {
    const int32_t middle = too_few + (enough - too_few) / 2;
    const auto counts = [&](uint32_t key, int32_t token) {
      return keeps(key, token) && (key >= b.high || token <= middle);
    };
    (target.reached(row_totals(row, b.low, counts, s)) ? enough : too_few) = middle;
  }
  return {b.low, b.high, enough};
}

// The shortest prefix, by falling logit and rising id, of the tokens with keys of `lowest` or above
// that keeps(key, token) accepts, that reaches the target; all of them if none does.
// REQUIRES: load_chunk_keys(row) before.
template <typename Keeps>
__device__ Filter select(const RowView& row, uint32_t lowest, Keeps keeps, const Target& target,
                         ChooseScratch* s) {
  Bracket b = guess_bracket(row, lowest, keeps, target, s);
  if (!target.reached(b.from_low)) return {lowest, lowest, kNoLastToken};
  while (b.undecided() > kListCapacity && b.high - b.low > 1) {
    const uint32_t middle = b.low + (b.high - b.low) / 2;
    const Totals totals = row_totals(row, middle, keeps, s);
    b.narrow(middle, totals, target.reached(totals));
  }
  return b.undecided() > kListCapacity ? decide_ties(row, b, keeps, target, s)
                                       : decide_by_rank(row, b, keeps, target, s);
}

}  // namespace encore::gpu
