// One rank's part of a model that several ranks run together (tensor parallelism).
//
// Heads and the MLP's inner columns are divided: q, k, v, gate and up by output rows, o and down by
// input columns, whose products the ranks then add up. The head is divided by vocabulary rows, each
// part a multiple of 8: what is missing of the last ones are rows of zeros, whose logits nobody
// reads. Were it whole on every rank, each would compute all logits by the kernel that it found
// fastest, and their last bits, and so the tokens, could differ. Embedding and norms are whole:
// norm weights of q and k belong to a head, not to a rank.
#pragma once

#include <cstdint>

#include "encore/model_spec.h"
#include "encore/status.h"

namespace encore::lowering {

struct Shard {
  int32_t rank = 0;
  int32_t num_ranks = 1;
};

// Rows of the head that a rank has, those of zeros included.
inline int64_t head_rows(const ModelSpec& spec, const Shard& shard) {
  if (shard.num_ranks == 1) return spec.vocab_size;
  const int64_t eights = int64_t{8} * shard.num_ranks;
  return (spec.vocab_size + eights - 1) / eights * 8;
}

// Of all ranks together: vocab_size on one rank, that or a little more on several.
inline int64_t logit_columns(const ModelSpec& spec, const Shard& shard) {
  return head_rows(spec, shard) * shard.num_ranks;
}

// The first KV head that the rank has. With more ranks than KV heads, neighbours share one.
inline int64_t first_kv_head(const ModelSpec& spec, const Shard& shard) {
  return shard.rank * spec.num_kv_heads / shard.num_ranks;
}

// What the rank's part looks like to a device: its heads, its KV heads, its inner columns.
// `spec` is the whole model's. Errors: kInvalidArgument with the numbers if they cannot be divided.
Result<ModelSpec> shard_spec(const ModelSpec& spec, const Shard& shard);

}  // namespace encore::lowering
