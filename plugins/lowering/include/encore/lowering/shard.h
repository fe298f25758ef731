// One rank's part of a model that several ranks run together (tensor parallelism).
//
// Heads and the MLP's inner columns are divided: q, k, v, gate and up by output rows, o and down by
// input columns, whose products the ranks then add up. The head is divided by vocabulary rows if
// each part is a multiple of 8, and is whole on every rank otherwise. Embedding and norms are
// whole: norm weights of q and k belong to a head, not to a rank.
#pragma once

#include <cstdint>

#include "encore/model_spec.h"
#include "encore/status.h"

namespace encore::lowering {

struct Shard {
  int32_t rank = 0;
  int32_t num_ranks = 1;
};

// Rows of the head that a rank has: vocab_size if it is not divided.
inline int64_t head_rows(const ModelSpec& spec, const Shard& shard) {
  const bool divides = spec.vocab_size % (int64_t{8} * shard.num_ranks) == 0;
  return divides ? spec.vocab_size / shard.num_ranks : spec.vocab_size;
}

// The first KV head that the rank has. With more ranks than KV heads, neighbours share one.
inline int64_t first_kv_head(const ModelSpec& spec, const Shard& shard) {
  return shard.rank * spec.num_kv_heads / shard.num_ranks;
}

// What the rank's part looks like to a device: its heads, its KV heads, its inner columns.
// `spec` is the whole model's. Errors: kInvalidArgument with the numbers if they cannot be divided.
Result<ModelSpec> shard_spec(const ModelSpec& spec, const Shard& shard);

}  // namespace encore::lowering
