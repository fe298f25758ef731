#include "encore/lowering/shard.h"

#include <string>

namespace encore::lowering {
namespace {

Status cannot_divide(const char* what, int64_t count, int32_t num_ranks) {
  return invalid_argument(std::string(what) + " is " + std::to_string(count) +
                          ", which cannot be divided among " + std::to_string(num_ranks) +
                          " ranks; choose a number of ranks that divides it");
}

}  // namespace

Result<ModelSpec> shard_spec(const ModelSpec& spec, const Shard& shard) {
  const int64_t ranks = shard.num_ranks;
  if (ranks < 1 || shard.rank < 0 || shard.rank >= ranks) {
    return invalid_argument("the rank is " + std::to_string(shard.rank) + " of " +
                            std::to_string(ranks));
  }
  if (spec.num_heads % ranks != 0) {
    return cannot_divide("num_heads", spec.num_heads, shard.num_ranks);
  }
  // Either each rank has some KV heads, or each KV head has some ranks.
  const bool replicated = spec.num_kv_heads < ranks;
  if (replicated ? ranks % spec.num_kv_heads != 0 : spec.num_kv_heads % ranks != 0) {
    return invalid_argument("num_kv_heads is " + std::to_string(spec.num_kv_heads) +
                            " and there are " + std::to_string(ranks) +
                            " ranks; one must be a multiple of the other");
  }
  if (spec.intermediate_size % ranks != 0) {
    return cannot_divide("intermediate_size", spec.intermediate_size, shard.num_ranks);
  }
  ModelSpec part = spec;
  part.num_heads = spec.num_heads / ranks;
  part.num_kv_heads = replicated ? 1 : spec.num_kv_heads / ranks;
  part.intermediate_size = spec.intermediate_size / ranks;
  // A rank's rows of a tied head are a weight of their own.
  if (ranks > 1) part.tied_embeddings = false;
  return part;
}

}  // namespace encore::lowering
