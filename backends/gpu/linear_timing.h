// Times the products of a model on the device, alone and in the order of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "blas.h"
#include "encore/status.h"
#include "kernels/gpu/decode_linear.h"
#include "kernels/gpu/gated_linear.h"
#include "kernels/gpu/split_linear.h"
#include "memory.h"
#include "stream_timer.h"
#include "timed_attention.h"
#include "weights.h"

namespace encore::gpu {

// All matrices of one class, layer by layer: timed calls take turns among them, so that caches are
// as cold as in a step.
struct LinearGroup {
  LinearClass shape;
  std::vector<const void*> weights;  // each [n, k] bf16
  const void* bias = nullptr;        // of one of them
};

inline bool is_logits(const LinearClass& shape) {
  return shape.epilogue == lowering::Epilogue::kLogits;
}

// Of a choice of kernel, in the place of a variant: the vendor's BLAS.
inline constexpr int32_t kByBlas = -1;

// The class's product of that many rows, without operands, as each kind of kernel names it.
ProductShape product_of(const LinearClass& shape, int32_t rows);
DecodeLinearProblem streaming_problem(const LinearClass& shape, int32_t rows);
GatedLinearProblem gated_problem(const LinearClass& shape, LiveRows rows);  // SiLU-mul only
SplitLinearProblem split_problem(const LinearClass& shape, LiveRows rows);  // bf16 output only

// Used by one thread, with the device current. Holds operands large enough for every product.
class LinearTiming {
 public:
  // The account outlives it. Errors: kOutOfMemory.
  static Result<std::unique_ptr<LinearTiming>> create(std::span<const LinearGroup> groups,
                                                      int32_t max_rows, int32_t max_logit_rows,
                                                      MemoryAccount& account, void* stream);

  // Variants of the streaming kernel for products of that class; 0 if it does not serve them.
  int32_t num_variants(const LinearGroup& group, int32_t rows) const;
  // Has the BLAS choose its algorithm; see Blas::tune().
  Status tune_blas(Blas& blas, const LinearGroup& group, int32_t rows);
  // Microseconds of one product among others of its class.
  Result<float> blas_us(Blas& blas, const LinearGroup& group, int32_t rows);
  Result<float> streaming_us(const LinearGroup& group, int32_t rows, int32_t variant);
  // The same of the kernel that serves such a product beyond kDecodeLinearMaxRows: the gated one,
  // or the split one, with the norm after it where the streaming kernel would fold that in.
  int32_t num_tiled_variants(const LinearGroup& group, int32_t rows) const;
  Result<float> tiled_us(const LinearGroup& group, int32_t rows, int32_t variant);
  // Before layers of so many rows are timed: `spec` and `device` say what their attention is.
  Status prepare_layers(const ModelSpec& spec, const DeviceTraits& device, int32_t rows);
  // Microseconds of a layer, in a graph of several: the groups' products in order, with the norms,
  // SiLU-muls and attention that go with them: up to kDecodeLinearMaxRows rows that of as many
  // requests, beyond them that of one. `variants` has, for each group, the variant of our kernel
  // for so many rows, or kByBlas; up to kDecodeLinearMaxRows rows all or none are ours.
  // REQUIRES: the groups are one model's layers in order, none of logits.
  Result<float> layer_us(Blas& blas, std::span<const LinearGroup> groups,
                         std::span<const int32_t> variants, int32_t rows);

 private:
  LinearTiming(MemoryAccount& account, void* stream) : account_(account), stream_(stream) {}
  // What one product reads of the product before it.
  struct Link {
    int32_t num_sumsq = 0;
  };

  const int32_t* all_rows() const;
  GatedLinearProblem gated_problem_of(const LinearGroup& group, size_t layer, int32_t rows) const;
  SplitLinearProblem split_problem_of(const LinearGroup& group, size_t layer, int32_t rows) const;
  Status tile(const LinearGroup& group, size_t layer, int32_t rows, int32_t variant);
  Status run(Blas& blas, const LinearGroup& group, size_t layer, int32_t rows, int32_t variant,
             Link* link);
  DecodeLinearProblem problem_of(const LinearGroup& group, size_t layer, int32_t rows) const;
  Status multiply(Blas& blas, const LinearGroup& group, size_t layer, int32_t rows);
  Status stream(const LinearGroup& group, size_t layer, int32_t rows, int32_t variant, Link* link);
  Status norm(int32_t rows, int32_t columns);
  Status enqueue_layers(Blas& blas, std::span<const LinearGroup> groups,
                        std::span<const int32_t> variants, int32_t rows, size_t layers);
  Result<float> replay_us(int replays, const std::function<Status()>& enqueue);

  MemoryAccount& account_;
  void* stream_;
  std::unique_ptr<StreamTimer> timer_;
  std::unique_ptr<TimedAttention> attention_;
  std::unique_ptr<lowering::DeviceMemoryBlock> x_;
  std::unique_ptr<lowering::DeviceMemoryBlock> y_;
  std::unique_ptr<lowering::DeviceMemoryBlock> z_;     // a second output: SiLU-mul's, or the norm's
  std::unique_ptr<lowering::DeviceMemoryBlock> sums_;  // sums of squares, and a live count
};

}  // namespace encore::gpu
