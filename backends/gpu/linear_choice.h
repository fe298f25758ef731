// Which kernel computes which product, by timing: the vendor's BLAS, or one of ours in one of its
// variants: up to kDecodeLinearMaxRows rows the weight-streaming kernel of
// kernels/gpu/decode_linear.h, beyond them that of kernels/gpu/gated_linear.h for gate and up, and
// up to kSplitLinearMaxRows that of kernels/gpu/split_linear.h for the others.
//
// The choice depends on the number of rows. Where rows are few, the products of a layer choose
// together and are timed in their order: the streaming kernel also saves the norms between them,
// our kernels read weights under the kernels before them, and what is fastest alone need not be so
// beside its neighbours. With many rows each chooses alone, and so does the logits product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "linear_timing.h"
#include "memory.h"

namespace encore::gpu {

class LinearChoice {
 public:
  // `can_stream`: the device has our kernels.
  LinearChoice(Blas& blas, bool can_stream) : blas_(blas), can_stream_(can_stream) {}

  // Times what may serve up to these rows, on the stream, and waits for it. Takes memory for
  // operands while it runs. What an earlier call timed is not timed again.
  Status tune(std::span<const LinearGroup> groups, const ModelSpec& spec,
              const DeviceTraits& device, int32_t max_rows, int32_t max_logit_rows,
              MemoryAccount& account, void* stream);

  // Our kernel's variant for products of that group and number of rows, or kByBlas.
  int32_t variant(size_t group, int32_t rows) const;

 private:
  // What was found for a number of rows; it serves fewer rows too, from the next smaller entry on.
  struct Entry {
    int32_t rows = 0;
    std::vector<int32_t> variants;  // by group
  };
  // A way to compute a product, and what it takes alone.
  struct Candidate {
    int32_t variant = kByBlas;
    float us = 0.0F;
  };
  // The fastest alone comes first.
  using Candidates = std::vector<Candidate>;

  Result<Candidates> streaming_candidates(LinearTiming& timing, const LinearGroup& group,
                                          int32_t rows);
  Result<Candidates> tiled_candidates(LinearTiming& timing, const LinearGroup& group, int32_t rows);
  Result<bool> is_faster(LinearTiming& timing, std::span<const LinearGroup> layer,
                         std::span<const int32_t> tried, std::span<const int32_t> best,
                         int32_t rows, float* best_us);
  Result<float> choose_together(LinearTiming& timing, std::span<const LinearGroup> layer,
                                std::span<const Candidates> candidates, int32_t rows,
                                std::vector<int32_t>* best);
  Status tune_layers(LinearTiming& timing, std::span<const LinearGroup> layer, int32_t rows,
                     std::vector<int32_t>* variants);
  Status tune_streaming(LinearTiming& timing, std::span<const LinearGroup> layer, int32_t rows,
                        std::vector<int32_t>* variants);
  Status tune_tiled(LinearTiming& timing, std::span<const LinearGroup> layer, int32_t rows,
                    std::vector<int32_t>* variants);
  Status tune_logits(LinearTiming& timing, const LinearGroup& group, int32_t rows,
                     int32_t* variant);

  Blas& blas_;
  bool can_stream_;
  std::vector<Entry> entries_;  // ascending rows
};

}  // namespace encore::gpu
