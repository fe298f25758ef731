// Where each weight of a model goes in the one block of device memory that holds them all, as bf16.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/status.h"
#include "encore/weights.h"

namespace encore::gpu {

inline constexpr int64_t kWeightAlignment = 256;

// Hands out places from the front. Used by one thread; the source outlives it.
class WeightSlab {
 public:
  explicit WeightSlab(const WeightSource& source);

  // Enough for every weight of the source, however they are stacked.
  static int64_t bytes(const WeightSource& source);

  struct Place {
    int64_t offset = 0;  // of the first row; a multiple of kWeightAlignment
    bool fresh = false;  // false: these weights have been there since an earlier call
  };

  // Places weights one directly after the other: the rows of one fused matrix, or one fused bias.
  // Asking again for what lies together already gives the same place.
  // Errors: kInvalidArgument if weights do not exist, differ in columns, or leave the next one off
  // a 16-byte boundary; kFailedPrecondition if some lie elsewhere already; kUnimplemented for a
  // dtype that is not a weight's.
  Result<Place> place(std::span<const size_t> weights);

 private:
  Status check(std::span<const size_t> weights) const;

  const WeightSource& source_;
  std::vector<int64_t> offsets_;  // by weight; -1 while it has no place
  int64_t used_bytes_ = 0;
};

// Elements of a weight, and the bytes they take as bf16.
int64_t weight_elements(const WeightInfo& weight);
int64_t bf16_bytes(const WeightInfo& weight);

}  // namespace encore::gpu
