// Rotary position embedding, optional q/k norm, and the write of keys and values into the cache.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

// How a head's elements pair up for rotation. Numbers equal those of Encore's RopeStyle.
enum class RopePairing : int32_t {
  kHalfSplit = 0,      // element i with i + rotary_dim / 2
  kAdjacentPairs = 1,  // element 2i with 2i + 1
};

// Once a step, before the first layer: where each token's keys go, and its angles.
//   slot = page_ids[page_start[r] + position / page_size] * page_size + position % page_size
// for token t of request r, q_start[r] <= t < q_start[r + 1]; -1 for tokens of no request.
struct StepTablesArgs {
  const int32_t* num_tokens;    // [1] live tokens
  const int32_t* num_requests;  // [1] live requests
  const int32_t* positions;     // [*num_tokens]
  const int32_t* q_start;       // [*num_requests + 1]
  const int32_t* page_start;    // [*num_requests + 1]
  const int32_t* page_ids;      // [page_start[*num_requests]]
  const float* inv_freq;        // [rotary_dim / 2] radians a position
  float attention_scale;        // multiplies cos and sin
  int32_t rotary_dim;           // even, at most head_dim; rotary_dim * 4 bytes of cos_sin a token
  int32_t page_size;
  int32_t num_pages;  // a slot outside [0, num_pages * page_size) becomes -1
  float* cos_sin;     // out [*num_tokens, rotary_dim]: all cosines, then all sines
  int32_t* slots;     // out [*num_tokens]
};

// Splits by tokens; angles are computed in double and are good to one f32 rounding at any
// position. Needs no scratch; does not synchronise at its end.
void step_tables(const StepTablesArgs& args, const Worker& worker);

// In each layer: normalises (if asked) and rotates q and k, writes q, and writes k and v into the
// cache. Elements of a head from rotary_dim on are not rotated.
struct RopeKvArgs {
  const int32_t* num_tokens;  // [1] live tokens; rows from there on are not touched
  const float* qkv;           // [tokens, (num_heads + 2 * num_kv_heads) * head_dim]: q, k, v
  int64_t qkv_stride;         // elements from row to row
  float* q_out;               // [tokens, num_heads * head_dim]; may be qkv (in place)
  int64_t q_out_stride;
  const float* q_norm_weight;  // [head_dim], or null for no norm of q
  const float* k_norm_weight;  // [head_dim], or null for no norm of k
  float norm_eps;
  RopePairing pairing;
  int32_t num_heads;
  int32_t rotary_dim;
  const float* cos_sin;  // of step_tables
  const int32_t* slots;  // of step_tables; a token with slot -1 writes no key or value
  KvPages kv;            // gives num_kv_heads, head_dim and page_size
};

// Splits by (token, kv head). Needs no scratch; does not synchronise at its end.
using RopeKvKernel = void (*)(const RopeKvArgs&, const Worker&);

// The best kernel at or below `level`.
RopeKvKernel rope_kv_kernel(IsaLevel level);

}  // namespace encore::kernels
