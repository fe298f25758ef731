// Looks up rows of the embedding matrix and widens them to f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

// y[i] = weight row of token i, dequantised. A negative id -1 - k means previous_tokens[k]: the
// token that row k sampled in the step before. A row whose id (after that) is not in
// [0, vocab_size) becomes zeros.
struct EmbeddingArgs {
  const int32_t* num_tokens;       // [1] live rows; rows from there on are not touched
  const int32_t* token_ids;        // [*num_tokens]
  const int32_t* previous_tokens;  // [any]; may be null if no id is negative
  const std::byte* weight;         // [vocab_size, hidden_size] row-major, GGUF's own layout
  int64_t row_bytes;               // bytes from row to row
  WeightType type;                 // any
  int32_t vocab_size;
  int32_t hidden_size;  // a whole number of the type's groups
  float* y;             // [*num_tokens, hidden_size]
  int64_t y_stride;     // elements from row to row
};

// Splits by rows. Needs no scratch; does not synchronise at its end.
void embedding(const EmbeddingArgs& args, const Worker& worker);

}  // namespace encore::kernels
