// One shape of matrix product, described to cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cublas_library.h"
#include "encore/status.h"
#include "tuned_blas.h"

namespace encore::cuda {

// One of cuBLASLt's own objects, destroyed with this.
template <typename T>
struct CublasDestroy {
  cublasStatus_t (*destroy)(T*) = nullptr;
  void operator()(T* object) const { static_cast<void>(destroy(object)); }
};
template <typename T>
using CublasObject = std::unique_ptr<T, CublasDestroy<T>>;

// The functions and the handle outlive it.
class CublasProduct final : public gpu::LibraryProduct {
 public:
  static Result<std::unique_ptr<gpu::LibraryProduct>> create(const CublasFunctions& cublas,
                                                             cublasLtHandle_t handle,
                                                             const gpu::ProductShape& shape);

  // All give the same bits every time: partial sums of a split k are added in a fixed order.
  Result<std::vector<gpu::AlgorithmBytes>> candidates(int64_t workspace_bytes,
                                                      int count) const override;
  bool serves(const gpu::AlgorithmBytes& bytes, int64_t workspace_bytes) const override;
  Status run(const gpu::AlgorithmBytes& bytes, const gpu::ProductOperands& operands,
             const gpu::Workspace& workspace, cudaStream_t stream) override;

 private:
  CublasProduct(const CublasFunctions& cublas, cublasLtHandle_t handle,
                const gpu::ProductShape& shape)
      : cublas_(&cublas), handle_(handle), shape_(shape) {}

  Status describe();
  Status make_layout(cudaDataType_t type, int64_t rows, int64_t columns,
                     CublasObject<cublasLtMatrixLayoutOpaque_t>* layout);
  template <typename T>
  Status set(cublasLtMatmulDescAttributes_t attribute, const T& value);
  std::string name() const { return gpu::name_of(shape_); }

  const CublasFunctions* cublas_;
  cublasLtHandle_t handle_;
  gpu::ProductShape shape_;
  CublasObject<cublasLtMatmulDescOpaque_t> desc_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> w_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> x_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> y_;
};

}  // namespace encore::cuda
