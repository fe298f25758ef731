// Rotary position embedding, optional q/k norm, and the write of keys and values into the cache.
#pragma once

#include <cstdint>

#include "kernels/gpu/kv_layout.h"
#include "kernels/gpu/launch.h"

namespace encore::gpu {

// Numbers equal those of encore::RopeStyle.
enum class RopePairing : int32_t {
  kHalfSplit = 0,      // element i with i + rotary_dim / 2
  kAdjacentPairs = 1,  // element 2i with 2i + 1
};

// Once a step, before the first layer: where each token's keys go, and its angles.
//   slot = page_ids[page_start[r] + position / page_size] * page_size + position % page_size
// for token t of request r = token_request[t]; rows from *num_tokens to max_tokens, and tokens of
// no request, get slot -1.
struct StepTablesArgs {
  LiveRows tokens;
  const int32_t* positions = nullptr;      // [tokens]
  const int32_t* token_request = nullptr;  // [tokens]; -1: none
  const int32_t* page_start = nullptr;     // [requests + 1]
  const int32_t* page_ids = nullptr;
  const float* inv_freq = nullptr;  // [rotary_dim / 2] radians a position
  float attention_scale = 1.0F;     // multiplies cos and sin
  int32_t rotary_dim = 0;           // even, at most head_dim
  int32_t page_size = 0;
  int32_t num_pages = 0;     // a slot outside [0, num_pages * page_size) becomes -1
  float* cos_sin = nullptr;  // out [tokens, rotary_dim]: all cosines, then all sines
  int32_t* slots = nullptr;  // out [tokens]
};

// Angles are good to one f32 rounding at any position up to 2^20: the product and the reduction are
// done in double (or an equally exact way).
LaunchError step_tables(const StepTablesArgs& args, const Launch& launch);

// In each layer: normalises (if asked) and rotates q and k, writes q back in place, and writes k
// and v into the cache. Arithmetic in f32, one rounding to bf16 at the end (norm and rotation do
// not round in between). Elements of a head from rotary_dim on are not rotated. All rows up
// to the maximum may be read.
struct RopeKvArgs {
  LiveRows tokens;
  void* qkv = nullptr;     // [tokens, (num_heads + 2 * num_kv_heads) * head_dim] bf16: q, k, v
  int64_t qkv_stride = 0;  // elements
  const void* q_norm_weight = nullptr;  // [head_dim] bf16, or null
  const void* k_norm_weight = nullptr;
  float norm_eps = 0.0F;
  RopePairing pairing = RopePairing::kHalfSplit;
  int32_t num_heads = 0;
  int32_t rotary_dim = 0;
  const float* cos_sin = nullptr;  // of step_tables
  const int32_t* slots = nullptr;  // of step_tables; a token with slot -1 writes no key or value
  KvPages kv;
};

LaunchError rope_kv_write(const RopeKvArgs& args, const Launch& launch);

}  // namespace encore::gpu
