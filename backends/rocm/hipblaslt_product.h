// One shape of matrix product, described to hipBLASLt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "encore/status.h"
#include "hipblaslt_library.h"
#include "tuned_blas.h"
#include "vendor.h"

namespace encore::rocm {

// The functions and the handle outlive it.
class HipblasltProduct final : public gpu::LibraryProduct {
 public:
  static Result<std::unique_ptr<gpu::LibraryProduct>> create(const HipblasltFunctions& hipblaslt,
                                                             hipblasLtHandle_t handle,
                                                             const gpu::ProductShape& shape);

  Result<std::vector<gpu::AlgorithmBytes>> candidates(int64_t workspace_bytes,
                                                      int count) const override;
  // The library runs whatever it is given, right or wrong, so what serves is what it lists itself.
  bool serves(const gpu::AlgorithmBytes& bytes, int64_t workspace_bytes) const override;
  Status run(const gpu::AlgorithmBytes& bytes, const gpu::ProductOperands& operands,
             const gpu::Workspace& workspace, gpuStream_t stream) override;

 private:
  HipblasltProduct(const HipblasltFunctions& hipblaslt, hipblasLtHandle_t handle,
                   const gpu::ProductShape& shape)
      : hipblaslt_(&hipblaslt), handle_(handle), shape_(shape) {}

  Status describe();
  Status make_layout(hipblasLtDataType type, int64_t rows, int64_t columns,
                     HipblasltObject<hipblasLtMatrixLayoutOpaque_t>* layout);
  template <typename T>
  Status set(hipblasLtMatmulDescAttributes_t attribute, const T& value);
  std::string name() const { return gpu::name_of(shape_); }

  const HipblasltFunctions* hipblaslt_;
  hipblasLtHandle_t handle_;
  gpu::ProductShape shape_;
  HipblasltObject<hipblasLtMatmulDescOpaque_t> desc_;
  HipblasltObject<hipblasLtMatrixLayoutOpaque_t> w_;
  HipblasltObject<hipblasLtMatrixLayoutOpaque_t> x_;
  HipblasltObject<hipblasLtMatrixLayoutOpaque_t> y_;
};

}  // namespace encore::rocm
