// Which kernel computes which product, by timing: the vendor's BLAS, or the weight-streaming kernel
// of kernels/gpu/decode_linear.h in one of its variants.
//
// The choice depends on the number of rows. The products of a layer choose together, since the
// streaming kernel also saves the norms between them; the logits product chooses alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "kernels/gpu/decode_linear.h"
#include "memory.h"
#include "weights.h"

namespace encore::gpu {

// All matrices of one class: timed calls take turns among them, so that caches are as cold as in a
// step.
struct LinearGroup {
  LinearClass shape;
  std::vector<const void*> weights;  // each [n, k] bf16
  const void* bias = nullptr;        // of one of them
};

// The class's product of that many rows, without operands, as each kind of kernel names it.
ProductShape product_of(const LinearClass& shape, int32_t rows);
DecodeLinearProblem streaming_problem(const LinearClass& shape, int32_t rows);

class LinearChoice {
 public:
  static constexpr int32_t kByBlas = -1;

  // `can_stream`: the device has the streaming kernel.
  LinearChoice(Blas& blas, bool can_stream) : blas_(blas), can_stream_(can_stream) {}

  // Times what may serve up to these rows, on the stream, and waits for it. Takes memory for
  // operands while it runs. What an earlier call timed is not timed again.
  Status tune(std::span<const LinearGroup> groups, int32_t max_rows, int32_t max_logit_rows,
              MemoryAccount& account, void* stream);

  // The streaming kernel's variant for products of that class and number of rows, or kByBlas.
  int32_t variant(size_t group, int32_t rows) const;

 private:
  // What was found for a number of rows; it serves fewer rows too, from the next smaller entry on.
  struct Entry {
    int32_t rows = 0;
    std::vector<int32_t> variants;  // by group
  };
  struct Timing {
    float blas_us = 0.0F;
    float streaming_us = 0.0F;
    int32_t variant = kByBlas;
  };
  class Bench;

  Result<Entry> tune_rows(Bench& bench, std::span<const LinearGroup> groups, int32_t rows,
                          int32_t max_logit_rows);

  Blas& blas_;
  bool can_stream_;
  std::vector<Entry> entries_;  // ascending rows
};

}  // namespace encore::gpu
