// Causal attention over a paged KV cache, for any mix of prefill chunks and decodes.
//
// A query's result is defined for that query alone, whatever shares the step:
//   1. q is multiplied by scale * log2(e).
//   2. Positions 0 .. own position are cut into splits of kAttentionSplit from position 0. Scores
//      in a split are sums over head_dim in ascending order. m is their maximum, p = exp2(s - m);
//      the sum of p runs over 16 lanes (position modulo 16), each ascending, then over lanes in
//      a fixed tree; the sum of p * v runs over positions in ascending order.
//   3. Splits merge one after another from split 0.
// So a token has the same bits prefilled in one chunk, in several, or decoded, on any number of
// threads. Levels differ from one another by rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

inline constexpr int32_t kAttentionSplit = 256;  // positions

// Tokens q_start[r] .. q_start[r + 1] - 1 are the last positions of the kv_len[r] of request r,
// whose keys and values, this step's included, are already in the cache.
struct AttentionArgs {
  const int32_t* num_requests;  // [1] live requests
  const int32_t* q_start;       // [*num_requests + 1]; output rows outside are not touched
  const int32_t* kv_len;        // [*num_requests], this step's tokens included
  const int32_t* page_start;    // [*num_requests + 1]
  const int32_t* page_ids;      // [page_start[*num_requests]]
  const float* q;               // [tokens, num_heads * head_dim], rotated
  int64_t q_stride;             // elements from row to row
  float* out;                   // [tokens, num_heads * head_dim]; must not overlap q
  int64_t out_stride;
  KvPages kv;
  int32_t num_heads;  // a multiple of num_kv_heads, at most 64 times it
  float scale;        // usually 1 / sqrt(head_dim)
  float* workspace;   // shared by the team; attention_workspace_bytes(), aligned to 64 bytes
  int64_t workspace_bytes;
};

// Splits by (request, query tile, kv head, split), balanced by work. Waits at worker.barrier once
// inside; does not synchronise at its end. Scratch: attention_scratch_bytes() a thread.
using AttentionKernel = void (*)(const AttentionArgs&, const Worker&);

// The best kernel at or below `level`.
AttentionKernel attention_kernel(IsaLevel level);

// Bytes of workspace for steps whose requests hold at most max_context positions.
int64_t attention_workspace_bytes(const KvLayout& layout, int32_t num_heads, int32_t max_context,
                                  int32_t num_threads);

// Bytes of Worker::scratch that each thread needs.
size_t attention_scratch_bytes(const KvLayout& layout, int32_t num_heads);

}  // namespace encore::kernels
