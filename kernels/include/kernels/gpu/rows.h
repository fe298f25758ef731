// Kernels that move or combine whole rows: embedding, gather, SiLU-mul.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

// Resolves each token id and looks it up. A negative id -1 - k means previous_tokens[k]: the token
// that row k sampled in the step before. An id (after that) outside [0, vocab_size) gives zeros.
struct EmbedArgs {
  LiveRows tokens;
  const int32_t* token_ids = nullptr;        // [tokens]
  const int32_t* previous_tokens = nullptr;  // [any]
  int32_t* input_tokens = nullptr;           // out [tokens]: ids after resolution
  const void* table = nullptr;               // [vocab_size, hidden_size] bf16
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;  // a multiple of 8
  void* y = nullptr;        // [tokens, hidden_size] bf16
};
LaunchError embed(const EmbedArgs& args, const Launch& launch);

// y[i] = x[rows_index[i]] for live i; rows from *live to maximum become zeros, so that what follows
// never multiplies stale values.
struct GatherRowsArgs {
  LiveRows rows;
  const int32_t* index = nullptr;  // [rows]
  const void* x = nullptr;         // [any, columns] bf16
  void* y = nullptr;               // [rows, columns] bf16
  int32_t columns = 0;             // a multiple of 8
};
LaunchError gather_rows(const GatherRowsArgs& args, const Launch& launch);

// y[i, j] = silu(x[i, j]) * x[i, columns + j], in f32.
struct SiluMulArgs {
  LiveRows rows;
  const void* x = nullptr;  // [rows, 2 * columns] bf16
  void* y = nullptr;        // [rows, columns] bf16
  int32_t columns = 0;      // a multiple of 8
};
LaunchError silu_mul(const SiluMulArgs& args, const Launch& launch);

// x[i, j] += bias[j].
struct AddBiasArgs {
  LiveRows rows;
  void* x = nullptr;           // [rows, columns] bf16
  const void* bias = nullptr;  // [columns] bf16
  int32_t columns = 0;         // a multiple of 8
};
LaunchError add_bias(const AddBiasArgs& args, const Launch& launch);

}  // namespace encore::gpu
