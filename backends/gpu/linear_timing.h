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
#include "linear_times.h"
#include "memory.h"
#include "stream_timer.h"
#include "timed_attention.h"
#include "weights.h"

namespace encore::gpu {

// The class's product of that many rows, without operands, as each kind of kernel names it.
ProductShape product_of(const LinearClass& shape, int32_t rows);
DecodeLinearProblem streaming_problem(const LinearClass& shape, int32_t rows);
GatedLinearProblem gated_problem(const LinearClass& shape, LiveRows rows);  // SiLU-mul only
SplitLinearProblem split_problem(const LinearClass& shape, LiveRows rows);  // bf16 output only

// Used by one thread, with the device current. Holds operands large enough for every product.
class LinearTiming final : public LinearTimes {
 public:
  // The account outlives it. Errors: kOutOfMemory.
  static Result<std::unique_ptr<LinearTiming>> create(std::span<const LinearGroup> groups,
                                                      int32_t max_rows, int32_t max_logit_rows,
                                                      MemoryAccount& account, void* stream);

  int32_t num_variants(const LinearGroup& group, int32_t rows) const override;
  Status tune_blas(Blas& blas, const LinearGroup& group, int32_t rows) override;
  Result<float> blas_us(Blas& blas, const LinearGroup& group, int32_t rows) override;
  Result<float> streaming_us(const LinearGroup& group, int32_t rows, int32_t variant) override;
  int32_t num_tiled_variants(const LinearGroup& group, int32_t rows) const override;
  Result<float> tiled_us(const LinearGroup& group, int32_t rows, int32_t variant) override;
  Status prepare_layers(const ModelSpec& spec, const DeviceTraits& device, int32_t rows) override;
  Result<float> layer_us(Blas& blas, std::span<const LinearGroup> groups,
                         std::span<const int32_t> variants, int32_t rows) override;

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
