// What products of a model take, by each kernel that may serve them: what LinearChoice asks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "blas.h"
#include "encore/lowering/ops.h"
#include "encore/model_spec.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"
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

class LinearTimes {
 public:
  virtual ~LinearTimes() = default;

  // Variants of the streaming kernel for products of that class; 0 if it does not serve them.
  virtual int32_t num_variants(const LinearGroup& group, int32_t rows) const = 0;
  // Has the BLAS choose its algorithm; see Blas::tune().
  virtual Status tune_blas(Blas& blas, const LinearGroup& group, int32_t rows) = 0;
  // Microseconds of one product among others of its class.
  virtual Result<float> blas_us(Blas& blas, const LinearGroup& group, int32_t rows) = 0;
  virtual Result<float> streaming_us(const LinearGroup& group, int32_t rows, int32_t variant) = 0;
  // The same of the kernel that serves such a product beyond kDecodeLinearMaxRows: the gated one,
  // or the split one, with the norm after it where the streaming kernel would fold that in.
  virtual int32_t num_tiled_variants(const LinearGroup& group, int32_t rows) const = 0;
  virtual Result<float> tiled_us(const LinearGroup& group, int32_t rows, int32_t variant) = 0;
  // Before layers of so many rows are timed: `spec` and `device` say what their attention is.
  virtual Status prepare_layers(const ModelSpec& spec, const DeviceTraits& device,
                                int32_t rows) = 0;
  // Microseconds of a layer, in a graph of several: the groups' products in order, with the norms,
  // SiLU-muls and attention that go with them: up to kDecodeLinearMaxRows rows that of as many
  // requests, beyond them that of one. `variants` has, for each group, the variant of our kernel
  // for so many rows, or kByBlas; up to kDecodeLinearMaxRows rows all or none are ours.
  // REQUIRES: the groups are one model's layers in order, none of logits.
  virtual Result<float> layer_us(Blas& blas, std::span<const LinearGroup> groups,
                                 std::span<const int32_t> variants, int32_t rows) = 0;
};

}  // namespace encore::gpu
