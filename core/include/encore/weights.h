// The weights of a model as a backend sees them: a list of named tensors, and ways to read them.
//
// Names are Encore's own, whatever the file called them, and shapes are [out_features, in_features]
// with in_features contiguous (a vector has one dimension):
//
//   embed.weight                          [vocab_size, hidden_size]
//   layers.N.attention_norm.weight        [hidden_size]
//   layers.N.{q,k,v}.weight               [num_heads | num_kv_heads * head_dim, hidden_size]
//   layers.N.{q,k,v}.bias                 if qkv_bias
//   layers.N.{q,k}_norm.weight            [head_dim], if qk_norm
//   layers.N.o.weight (.bias)             [hidden_size, num_heads * head_dim]
//   layers.N.mlp_norm.weight              [hidden_size]
//   layers.N.{gate,up}.weight (.bias)     [intermediate_size, hidden_size]
//   layers.N.down.weight (.bias)          [hidden_size, intermediate_size]
//   norm.weight                           [hidden_size]
//   head.weight                           [vocab_size, hidden_size], absent if tied_embeddings
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/dtype.h"
#include "encore/status.h"

namespace encore {

struct WeightInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> shape;  // one or two dimensions, each at least 1
  int64_t bytes = 0;           // rows * row_bytes(dtype, columns)
};

// Every tensor listed is present, whole and of the stated size: that was checked when the source
// was opened. All methods may be called from several threads at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual std::span<const WeightInfo> weights() const = 0;

  // Copies `destination.size()` bytes of weight `index` from byte `offset` on.
  // Errors: kInvalidArgument if the range leaves the tensor; kDataLoss if the file has shrunk.
  virtual Status read(size_t index, int64_t offset, std::span<std::byte> destination) const = 0;

  // The tensor in place, read-only, valid while the source lives; null if the source cannot map it
  // (the caller then uses read()). Aligned to at least one element of its dtype.
  virtual const std::byte* map(size_t index) const = 0;

  // Says that the pages under map(index) will not be read soon, so the system may drop them.
  virtual void release(size_t index) const = 0;
};

// Index of the weight of that name, or -1.
inline int64_t find_weight(const WeightSource& source, std::string_view name) {
  const std::span<const WeightInfo> weights = source.weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].name == name) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace encore
