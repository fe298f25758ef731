// The sampler's second kernel: a thread block chooses a row's token from what the scan left; of a
// row that is filtered, the last of those that tallied it.
#pragma once

#include "launch.cuh"
#include "sample_draw.cuh"

namespace encore::gpu {

enum class RowStatus : int32_t { kOk = 0, kNotFinite = 1, kNoCandidate = 2 };

// The highest of the chunks' maxima and the first chunk that has it. Keys of all to s->chunk_keys.
struct HighestChunk {
  float value;
  int32_t chunk;
};
template <int W>
__device__ inline HighestChunk highest_chunk(const float* chunk_max, int32_t chunks,
                                             ChooseScratch<W>* s) {
  uint64_t best = static_cast<uint64_t>(key_of(-ENCORE_GPU_INFINITY)) << 32;
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks; c += kChooseThreads) {
    const uint64_t key = key_of(chunk_max[c]);
    s->chunk_keys[c] = static_cast<uint32_t>(key);
    best = max(best, key << 32 | (0xFFFFFFFFU - static_cast<uint32_t>(c)));
  }
  best = block_max(best, s);
  return {value_of(static_cast<uint32_t>(best >> 32)),
          static_cast<int32_t>(0xFFFFFFFFU - static_cast<uint32_t>(best))};
}

// The first token of a chunk with this logit. By a whole warp.
template <int W>
__device__ inline int32_t first_of_chunk(const float* x, int32_t tokens,
                                         const HighestChunk& highest) {
  float values[kPerLane<W>];
  load_chunk<W>(x, tokens, highest.chunk, values);
  for (int i = 0; i < kPerLane<W>; ++i) {
    const LaneMask<W> equals = ballot<W>(values[i] == highest.value);
    if (equals != 0) return highest.chunk * kChunk + i * W + first_lane(equals);
  }
  return -1;  // not reached
}

// Fills what is left of a row's table of the highest, from entry `found` on.
__device__ inline void clear_top(const SampleArgs& args, int32_t row, int32_t found) {
  if (args.top_tokens == nullptr) return;
  const int64_t first = static_cast<int64_t>(row) * args.max_logprobs;
  for (int32_t i = found + static_cast<int32_t>(threadIdx.x); i < args.max_logprobs;
       i += kChooseThreads) {
    args.top_tokens[first + i] = -1;
    args.top_logprobs[first + i] = -ENCORE_GPU_INFINITY;
  }
}

__device__ inline void fail_row(const SampleArgs& args, int32_t row, bool reports,
                                RowStatus status) {
  if (threadIdx.x == 0) {
    args.tokens[row] = -1;
    args.row_status[row] = static_cast<int32_t>(status);
    if (reports && args.token_logprobs != nullptr) args.token_logprobs[row] = -ENCORE_GPU_INFINITY;
  }
  if (reports) clear_top(args, row, 0);
}

// The log of the sum of exp(logit). To all threads.
template <int W>
__device__ inline double log_sum(const RowView& raw, const float* raw_sum, ChooseScratch<W>* s) {
  Totals mine{};
  for (int32_t c = static_cast<int32_t>(threadIdx.x); c < chunks_of(raw.tokens);
       c += kChooseThreads) {
    mine.weight += raw.chunk_weight(raw.chunk_max[c], raw_sum[c]);
  }
  const Totals total = block_totals(mine, s);
  return static_cast<double>(raw.highest) +
         log(static_cast<double>(total.weight) / static_cast<double>(kWeightOne));
}

// The `wanted` highest raw logits, falling, lowest id first among equals.
template <int W>
__device__ inline void report_top(const SampleArgs& args, int32_t row, const RowView& raw,
                                  int32_t wanted, double sum, ChooseScratch<W>* s) {
  if (args.top_tokens == nullptr) return;
  int32_t found = 0;
  if (wanted > 0) {
    load_chunk_keys(raw, s);  // those of the drawn row were read before log_sum
    const Filter top = highest_tokens(raw, wanted, s);
    list_tokens(
        raw, top.low, [&](float value, int32_t token) { return top.keeps(key_of(value), token); },
        s);
    found = s->list_size;
  }
  const int64_t first = static_cast<int64_t>(row) * args.max_logprobs;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < found; i += kChooseThreads) {
    const uint32_t key = s->list.keys[i];
    const int32_t token = s->list.tokens[i];
    int32_t rank = 0;
    for (int32_t j = 0; j < found; ++j) {
      const uint32_t other = s->list.keys[j];
      rank += other > key || (other == key && s->list.tokens[j] < token) ? 1 : 0;
    }
    args.top_tokens[first + rank] = token;
    args.top_logprobs[first + rank] = static_cast<float>(static_cast<double>(value_of(key)) - sum);
  }
  clear_top(args, row, found);
}

// Blocks cover (row, pieces of a row).
template <int W>
__global__ void __launch_bounds__(kChooseThreads, 2)
    choose_kernel(SampleArgs args, SampleWorkspace workspace) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  __shared__ ChooseScratch<W> s;
  const auto row = static_cast<int32_t>(blockIdx.x);
  wait_for_previous_kernel();
  if (row >= *args.rows.live) return;
  const RowSampling p = args.params[row];
  const int32_t tokens = *args.num_valid_tokens;
  const bool is_filtered = row_is_filtered(p, tokens);
  if (blockIdx.y > 0 && !is_filtered) return;
  const int64_t at = static_cast<int64_t>(row) * workspace.chunks;
  const bool is_edited = row_is_edited(args, row, p);
  const bool reports = p.num_logprobs >= 0;

  RowView raw{args.logits + row * args.logits_stride, workspace.raw_max + at, tokens, 0.0F, 1.0F};
  const HighestChunk raw_highest = highest_chunk(raw.chunk_max, chunks_of(tokens), &s);
  raw.highest = raw_highest.value;
  RowView drawn = raw;
  HighestChunk highest = raw_highest;
  if (is_edited) {
    drawn.x = workspace.edited + static_cast<int64_t>(row) * args.vocab_size;
    drawn.chunk_max = workspace.edited_max + at;
    highest = highest_chunk(drawn.chunk_max, chunks_of(tokens), &s);
    drawn.highest = highest.value;
  }
  if (raw.highest == ENCORE_GPU_INFINITY || highest.value == ENCORE_GPU_INFINITY) {
    if (blockIdx.y == 0) fail_row(args, row, reports, RowStatus::kNotFinite);
    return;
  }
  if (highest.value == -ENCORE_GPU_INFINITY) {
    if (blockIdx.y == 0) fail_row(args, row, reports, RowStatus::kNoCandidate);
    return;
  }

  int32_t token = 0;
  if (row_is_greedy(p)) {
    if (my_warp<W>() == 0) token = first_of_chunk<W>(drawn.x, tokens, highest);
  } else {
    drawn.inverse_temperature = 1.0F / p.temperature;
    RowTally* tally = workspace.tallies + row;
    uint64_t* above = workspace.above + static_cast<int64_t>(row) * workspace.pieces * (kBins + 1);
    const TalliedRow tallied{lowest_by_min_p(drawn, p), is_filtered ? tally : nullptr, above};
    if (is_filtered && !tally_piece(drawn, tallied.by_min_p, tally, above, &s)) return;
    token = draw(drawn, p, workspace.draw_sum + at, tallied, &s);
  }
  if (threadIdx.x == 0) {
    args.tokens[row] = token;
    args.row_status[row] = static_cast<int32_t>(RowStatus::kOk);
  }
  if (!reports) return;
  const double sum = log_sum(raw, workspace.raw_sum + at, &s);
  if (threadIdx.x == 0 && args.token_logprobs != nullptr) {
    args.token_logprobs[row] = static_cast<float>(static_cast<double>(raw.x[token]) - sum);
  }
  report_top(args, row, raw, min(p.num_logprobs, args.max_logprobs), sum, &s);
}

}  // namespace encore::gpu
