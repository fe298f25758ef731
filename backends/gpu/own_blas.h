// Matrix products by kernels/gpu/linear.h: what serves where a vendor's library is missing.
#pragma once

#include <memory>

#include "blas.h"
#include "kernels/gpu/device_traits.h"

namespace encore::gpu {

// Needs no workspace and has nothing to tune. The bits of a row do not depend on how many rows
// there are, within the kernel for few rows and within that for many.
class OwnBlas final : public Blas {
 public:
  explicit OwnBlas(const DeviceTraits& device) : device_(device) {}

  int64_t workspace_bytes() const override { return 0; }
  void set_workspace(void*) override {}
  Status tune(const ProductShape& shape, const ProductOperands& operands,
              std::span<const void* const> weights, void* stream) override;
  Status save_tuning() override { return {}; }
  // Errors, besides Blas's: kUnimplemented unless k is a multiple of 8, and n too for bf16 output.
  Status multiply(const ProductShape& shape, const ProductOperands& operands,
                  void* stream) override;

 private:
  DeviceTraits device_;
};

}  // namespace encore::gpu
