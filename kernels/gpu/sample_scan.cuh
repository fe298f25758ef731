// The sampler's first kernel: one pass over the logits, spread over many blocks.
#pragma once

#include "launch.cuh"
#include "sample_row.cuh"

namespace encore::gpu {

inline constexpr int kScanWarps = 8;
template <int W>
inline constexpr int kScanThreads = kScanWarps* W;
inline constexpr int kPiece = kScanWarps * kChunk;  // tokens that a block holds at a time

template <int W>
__device__ inline float max_of_chunk(const float (&values)[kPerLane<W>]) {
  float highest = -ENCORE_GPU_INFINITY;
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {  // NaN counts as +infinity: a row with either fails
    highest = fmaxf(highest, values[i] < ENCORE_GPU_INFINITY ? values[i] : ENCORE_GPU_INFINITY);
  }
  return warp_max<W>(highest);
}

// Sum of exp((x - highest) * inverse_temperature) over a chunk.
template <int W>
__device__ inline float sum_of_chunk(const float (&values)[kPerLane<W>], float highest,
                                     float inverse_temperature) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {
    if (values[i] > -ENCORE_GPU_INFINITY) sum += expf((values[i] - highest) * inverse_temperature);
  }
  return warp_sum<W>(sum);
}

__device__ inline void penalise(const RowSampling& p, int32_t output_count, float* x) {
  *x = *x > 0.0F ? *x / p.repetition_penalty : *x * p.repetition_penalty;
  if (output_count > 0) {
    *x -= __fmul_rn(p.frequency_penalty, static_cast<float>(output_count)) + p.presence_penalty;
  }
}

// Tokens [begin, end) of a row, in shared memory.
struct Piece {
  float* x;
  int32_t begin;
  int32_t end;
  __device__ bool holds(int32_t token) const { return token >= begin && token < end; }
};

// By all threads of the block. Biases of one token add up in any order.
template <int W>
__device__ inline void add_biases(const SampleArgs& args, int32_t row, const Piece& piece) {
  if (args.bias_start == nullptr) return;
  const int32_t end = args.bias_start[row + 1];
  for (int32_t i = args.bias_start[row] + static_cast<int32_t>(threadIdx.x); i < end;
       i += kScanThreads<W>) {
    const TokenBias entry = args.biases[i];
    if (piece.holds(entry.token)) atomicAdd(&piece.x[entry.token - piece.begin], entry.bias);
  }
}

// By all threads of the block. Tokens of the history are distinct.
template <int W>
__device__ inline void penalise_history(const SampleArgs& args, int32_t row, const RowSampling& p,
                                        const Piece& piece) {
  int32_t pending = -1;  // an output token that may not be in the history yet
  if (args.token_ids != nullptr) {
    const int32_t input = args.logit_rows[row];
    if (args.token_ids[input] < 0) pending = args.input_tokens[input];
  }
  int pending_seen = 0;
  if (args.history_start != nullptr) {
    const int32_t end = args.history_start[row + 1];
    for (int32_t i = args.history_start[row] + static_cast<int32_t>(threadIdx.x); i < end;
         i += kScanThreads<W>) {
      const TokenCount seen = args.history[i];
      if (!piece.holds(seen.token)) continue;
      int32_t output_count = seen.in_output;
      if (seen.token == pending) {
        ++output_count;
        pending_seen = 1;
      }
      if (seen.in_prompt + output_count > 0) {
        penalise(p, output_count, &piece.x[seen.token - piece.begin]);
      }
    }
  }
  if (__syncthreads_or(pending_seen) == 0 && threadIdx.x == 0 && piece.holds(pending)) {
    penalise(p, 1, &piece.x[pending - piece.begin]);
  }
}

// Replaces `values` (a warp's chunk) by what bias and penalties make of them.
template <int W>
__device__ inline void edit_chunk(const SampleArgs& args, int32_t row, const RowSampling& p,
                                  const Piece& piece, float (&values)[kPerLane<W>]) {
  float* mine = piece.x + static_cast<int32_t>(threadIdx.x) / W * kChunk +
                static_cast<int32_t>(threadIdx.x) % W;
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) mine[i * W] = values[i];
  __syncthreads();
  add_biases<W>(args, row, piece);
  __syncthreads();
  if (has_penalty(p)) penalise_history<W>(args, row, p, piece);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) values[i] = mine[i * W];
}

// By all blocks of the scan that have tokens.
template <int W>
__device__ inline void clear_row_tally(RowTally* tally, int32_t tokens) {
  const int32_t blocks = (tokens + kPiece - 1) / kPiece;
  const auto first = static_cast<int32_t>(blockIdx.x * kScanThreads<W> + threadIdx.x);
  for (int32_t bin = first; bin < kBins; bin += blocks * kScanThreads<W>) {
    tally->weights[bin] = 0;
    tally->counts[bin] = 0;
  }
  if (first == 0) tally->pieces_done = 0;
}

// A warp takes a chunk. Blocks cover (pieces of a row, row).
template <int W>
__global__ void __launch_bounds__(kScanThreads<W>)
    scan_kernel(SampleArgs args, SampleWorkspace workspace) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  __shared__ float edited[kPiece];
  const auto row = static_cast<int32_t>(blockIdx.y);
  const auto begin = static_cast<int32_t>(blockIdx.x) * kPiece;
  const int32_t chunk = begin / kChunk + static_cast<int32_t>(threadIdx.x) / W;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % W;

  wait_for_previous_kernel();
  if (row >= *args.rows.live) return;
  float values[kPerLane<W>];  // loaded without waiting for the other inputs
  load_chunk<W>(args.logits + row * args.logits_stride, args.vocab_size, chunk, values);
  const int32_t tokens = *args.num_valid_tokens;
  if (begin >= tokens) return;
  const RowSampling p = args.params[row];
  const bool is_edited = row_is_edited(args, row, p);
  release_next_kernel();
#pragma unroll
  for (int i = 0; i < kPerLane<W>; ++i) {
    if (chunk * kChunk + i * W + lane >= tokens) values[i] = -ENCORE_GPU_INFINITY;
  }
  const int64_t at = static_cast<int64_t>(row) * workspace.chunks + chunk;
  const bool writes = lane == 0 && chunk * kChunk < tokens;
  float highest = max_of_chunk<W>(values);
  if (writes) workspace.raw_max[at] = highest;
  if (p.num_logprobs >= 0) {
    const float sum = sum_of_chunk<W>(values, highest, 1.0F);
    if (writes) workspace.raw_sum[at] = sum;
  }
  if (is_edited) {
    edit_chunk<W>(args, row, p, {edited, begin, min(begin + kPiece, tokens)}, values);
    highest = max_of_chunk<W>(values);
    if (writes) workspace.edited_max[at] = highest;
    float* copy = workspace.edited + static_cast<int64_t>(row) * args.vocab_size;
#pragma unroll
    for (int i = 0; i < kPerLane<W>; ++i) {
      const int32_t token = chunk * kChunk + i * W + lane;
      if (token < tokens) copy[token] = values[i];
    }
  }
  if (row_is_filtered(p, tokens)) {
    clear_row_tally<W>(workspace.tallies + row, tokens);
  } else if (!row_is_greedy(p)) {
    const float sum = sum_of_chunk<W>(values, highest, 1.0F / p.temperature);
    if (writes) workspace.draw_sum[at] = sum;
  }
}

}  // namespace encore::gpu
