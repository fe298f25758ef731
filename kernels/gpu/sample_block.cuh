// What a thread block of the sampler's second kernel has in common: shared memory, sums over the
// block, and the walk over a row's chunks.
#pragma once

#include "sample_row.cuh"

namespace encore::gpu {

inline constexpr int kChooseThreads = 512;
template <int W>
inline constexpr int kChooseWarps = kChooseThreads / W;
inline constexpr int32_t kListCapacity = kChooseThreads;
inline constexpr int32_t kNoLastToken = 0x7FFFFFFF;

// Of a set of tokens.
struct Totals {
  uint64_t weight;
  int32_t count;
  __device__ Totals& operator+=(const Totals& other) {
    weight += other.weight;
    count += other.count;
    return *this;
  }
};

// Tokens that are kept: with a key of `high` or above; and, of those from `low` on, those with ids
// up to last_token.
struct Filter {
  uint32_t low;
  uint32_t high;
  int32_t last_token;
  __device__ bool keeps(uint32_t key, int32_t token) const {
    return key >= high || (key >= low && token <= last_token);
  }
};

// What stays after min_p, top_k and top_p, one after another.
struct Kept {
  uint32_t by_min_p = kLowestKey;
  Filter top_k = {0, 0, kNoLastToken};  // all
  Filter top_p = {0, 0, kNoLastToken};
  __device__ bool operator()(uint32_t key, int32_t token) const {
    return key >= by_min_p && top_k.keeps(key, token) && top_p.keeps(key, token);
  }
  __device__ uint32_t lowest() const { return max(by_min_p, max(top_k.low, top_p.low)); }
};

// A filter, and what it keeps.
struct Decision {
  Filter filter;
  Totals kept;
};

// The bin with which a running sum over bins reaches a target: what comes before it, and how many
// tokens it holds.
struct Crossing {
  Totals before;
  int32_t bin;  // kBins: the target is not reached
  int32_t count;
};

// A chunk, and how far into its weight, as a share of it.
struct Place {
  int32_t chunk;
  double share;
};

// Shared memory of the block.
//
// What one thread writes for all to read lies in 16 bytes of its own: the compiler may load 16
// bytes where 4 or 12 are asked for, and a neighbour that a thread ahead is rewriting would make
// that a race (of a word that is dropped).
template <int W>
struct ChooseScratch {
  uint32_t chunk_keys[kMaxChunks];  // of the row's chunk maxima
  // One after another: a tally has been read when the list is filled, and the list when chunks are
  // weighed or the next tally begins. Each reader ends with a barrier.
  union {
    struct {
      uint32_t weights_low[kBins];  // the weight's two halves: there is no 64-bit addition
      uint32_t weights_high[kBins];
      uint32_t counts[kBins];
    } tally;
    struct {
      uint64_t weights[kListCapacity];
      uint32_t keys[kListCapacity];
      int32_t tokens[kListCapacity];
    } list;
    uint64_t chunk_weights[kMaxChunks];
  };
  uint64_t piece_weights[kMaxPieces];
  Totals totals[kChooseWarps<W>];
  uint64_t words[kChooseWarps<W>];
  alignas(16) Decision decision;
  alignas(16) Crossing crossing;
  alignas(16) Place place;
  alignas(16) int32_t list_size;
};

template <int W>
__device__ inline int32_t my_warp() {
  return static_cast<int32_t>(threadIdx.x) / W;
}
template <int W>
__device__ inline int32_t my_lane() {
  return static_cast<int32_t>(threadIdx.x) % W;
}

// In what follows the first barrier shows each warp's part to the others, and the second keeps a
// warp that is ahead from writing the next call's part before the others have read this one's.

// All threads get the maximum over the block.
template <int W>
__device__ inline uint64_t block_max(uint64_t value, ChooseScratch<W>* s) {
  value = warp_max<W>(value);
  if (my_lane<W>() == 0) s->words[my_warp<W>()] = value;
  __syncthreads();
  for (const uint64_t other : s->words) value = max(value, other);
  __syncthreads();
  return value;
}

// All threads get the sums over the block.
template <int W>
__device__ inline Totals block_totals(Totals totals, ChooseScratch<W>* s) {
  totals = {warp_sum<W>(totals.weight), warp_sum<W>(totals.count)};
  if (my_lane<W>() == 0) s->totals[my_warp<W>()] = totals;
  __syncthreads();
  Totals sum{};
  for (const Totals& part : s->totals) sum += part;
  __syncthreads();
  return sum;
}

// The sum over the lanes of the warp up to this one.
template <int W, typename T>
__device__ inline T warp_sums(T value) {
  for (int delta = 1; delta < W; delta *= 2) {
    const T other = shuffle_up<W>(value, delta);
    if (my_lane<W>() >= delta) value += other;
  }
  return value;
}

// The sum over the threads of the block before this one, and over all.
struct Prefix {
  Totals before;
  Totals total;
};
template <int W>
__device__ inline Prefix block_prefix(const Totals& mine, ChooseScratch<W>* s) {
  const Totals sum = {warp_sums<W>(mine.weight), warp_sums<W>(mine.count)};
  if (my_lane<W>() == W - 1) s->totals[my_warp<W>()] = sum;
  __syncthreads();
  Prefix prefix{{sum.weight - mine.weight, sum.count - mine.count}, {}};
  for (int i = 0; i < kChooseWarps<W>; ++i) {
    if (i == my_warp<W>()) prefix.before += prefix.total;
    prefix.total += s->totals[i];
  }
  __syncthreads();
  return prefix;
}

// Keys of the chunks' maxima to shared memory, for for_each_chunk.
// REQUIRES: a barrier since those of another view of the row were read.
template <int W>
__device__ inline void load_chunk_keys(const RowView& row, ChooseScratch<W>* s) {
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks_of(row.tokens);
       c += kChooseThreads) {
    s->chunk_keys[c] = key_of(row.chunk_max[c]);
  }
  __syncthreads();
}

// Chunks [begin, end) of a row.
struct ChunkRange {
  int32_t begin;
  int32_t end;
};
__device__ inline ChunkRange all_chunks(const RowView& row) { return {0, chunks_of(row.tokens)}; }

// Calls visit(chunk, values), by whole warps, for each chunk that has a key of `lowest` or above.
template <int W, typename Visit>
__device__ void for_each_chunk(const RowView& row, const ChooseScratch<W>& s, uint32_t lowest,
                               const ChunkRange& range, Visit visit) {
  for (int32_t base = range.begin; base < range.end; base += kChooseThreads) {
    const int32_t mine = base + my_lane<W>() * kChooseWarps<W> + my_warp<W>();
    LaneMask<W> wanted = ballot<W>(mine < range.end && s.chunk_keys[mine] >= lowest);
    for (; wanted != 0; wanted &= wanted - 1) {
      const int32_t chunk = base + first_lane(wanted) * kChooseWarps<W> + my_warp<W>();
      float values[kPerLane<W>];
      load_chunk<W>(row.x, row.tokens, chunk, values);
      visit(chunk, values);
    }
  }
}

// Calls visit(value, token) for each of the lane's values of a chunk, which are loaded together.
// Not unrolled, but handed on from register to register: the kernel runs most of its code once, and
// fetching eight copies of it would take longer.
template <int W, typename Visit>
__device__ void for_each_value(int32_t chunk, float (&values)[kPerLane<W>], Visit visit) {
  int32_t token = chunk * kChunk + my_lane<W>();
#pragma unroll 1
  for (int i = 0; i < kPerLane<W>; ++i, token += W) {
    visit(values[0], token);
#pragma unroll
    for (int j = 1; j < kPerLane<W>; ++j) values[j - 1] = values[j];
  }
}
template <int W, typename Visit>
__device__ void for_each_token(const RowView& row, const ChooseScratch<W>& s, uint32_t lowest,
                               const ChunkRange& range, Visit visit) {
  for_each_chunk(row, s, lowest, range, [&](int32_t chunk, float(&values)[kPerLane<W>]) {
    for_each_value<W>(chunk, values, visit);
  });
}

}  // namespace encore::gpu
