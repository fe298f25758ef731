// Which kernel computes which product, by timing: the vendor's BLAS, or one of ours in one of its
// variants: up to kDecodeLinearMaxRows rows the weight-streaming kernel of
// kernels/gpu/decode_linear.h, beyond them that of kernels/gpu/gated_linear.h for gate and up, and
// up to kSplitLinearMaxRows that of kernels/gpu/split_linear.h for the others.
//
// The choice depends on the number of rows. Where rows are few, the products of a layer choose
// together and are timed in their order: the streaming kernel also saves the norms between them,
// our kernels read weights under the kernels before them, and what is fastest alone need not be so
// beside its neighbours. With many rows each chooses alone, and so does the logits product.
//
// What was chosen is kept for the next start: ChoiceCache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "blas.h"
#include "choice_cache.h"
#include "encore/status.h"
#include "linear_times.h"
#include "memory.h"

namespace encore::gpu {

class LinearChoice {
 public:
  // `can_stream`: the device has our kernels. An empty folder keeps no choices.
  LinearChoice(Blas& blas, bool can_stream, const std::filesystem::path& folder);

  // Times what may serve up to these rows, `max_logit_rows` of logits, on the stream, and waits for
  // it. Takes memory for operands while it runs. What an earlier call timed is not timed again, nor
  // what was kept.
  Status tune(std::span<const LinearGroup> groups, const ModelSpec& spec,
              const DeviceTraits& device, int32_t max_rows, int32_t max_logit_rows,
              MemoryAccount& account, void* stream);

  // The same by these times, for these numbers of rows alone, in any order; logits for
  // max_logit_rows in the place of more.
  Status tune_by(LinearTimes& times, std::span<const LinearGroup> groups, const ModelSpec& spec,
                 const DeviceTraits& device, std::span<const int32_t> grid, int32_t max_logit_rows);

  // Writes what was chosen to disk. A failure costs the next start some time and nothing else.
  Status save() { return kept_.save(); }

  // Our kernel's variant for products of that group and number of rows, or kByBlas; that too past
  // the rows that were chosen for.
  int32_t variant(size_t group, int32_t rows) const;

 private:
  // What a group's products take for a number of rows, and for fewer, from the next smaller one on.
  struct Chosen {
    int32_t rows = 0;
    int32_t variant = kByBlas;
  };
  // A way to compute a product, and what it takes alone.
  struct Candidate {
    int32_t variant = kByBlas;
    float us = 0.0F;
    // What a layer with it took, of what one with the best choice so far took; 0: not tried yet.
    float beside_best = 0.0F;
  };
  // The fastest alone comes first.
  using Candidates = std::vector<Candidate>;

  Result<Candidates> streaming_candidates(LinearTimes& times, const LinearGroup& group,
                                          int32_t rows);
  Result<Candidates> tiled_candidates(LinearTimes& times, const LinearGroup& group, int32_t rows);
  Result<bool> is_faster(LinearTimes& times, std::span<const LinearGroup> layer,
                         std::span<const int32_t> tried, std::span<const int32_t> best,
                         int32_t rows, float* best_us, float* beside_best);
  Result<float> choose_together(LinearTimes& times, std::span<const LinearGroup> layer,
                                std::vector<Candidates> candidates, int32_t rows,
                                std::vector<int32_t>* best);
  std::vector<Chosen>::const_iterator chosen_for(size_t group, int32_t rows) const;
  bool has_chosen(size_t group, int32_t rows) const;
  void take(size_t group, int32_t rows, int32_t variant);
  // Chooses for these products, which are one model's layer or its logits; or takes what was kept.
  Status choose(LinearTimes& times, std::span<const LinearGroup> products, const ModelSpec& spec,
                const DeviceTraits& device, int32_t rows, std::vector<int32_t>* variants);
  Status tune_layers(LinearTimes& times, std::span<const LinearGroup> layer, int32_t rows,
                     std::vector<int32_t>* variants);
  Status tune_streaming(LinearTimes& times, std::span<const LinearGroup> layer, int32_t rows,
                        std::vector<int32_t>* variants);
  Status tune_tiled(LinearTimes& times, std::span<const LinearGroup> layer, int32_t rows,
                    std::vector<int32_t>* variants);
  Status tune_logits(LinearTimes& times, std::span<const LinearGroup> logits, int32_t rows,
                     int32_t* variant);
  Status tune_blas(LinearTimes& times, std::span<const LinearGroup> products, int32_t rows);
  Result<float> tuned_us(LinearTimes& times, std::span<const LinearGroup> products, int32_t rows,
                         float our_us, const std::function<Result<float>()>& time_blas);

  Blas& blas_;
  bool can_stream_;
  ChoiceCache kept_;
  std::vector<std::vector<Chosen>> chosen_;  // by group; ascending rows
};

}  // namespace encore::gpu
