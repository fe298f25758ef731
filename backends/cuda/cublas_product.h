// One shape of matrix product, described to cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "blas.h"
#include "cublas_library.h"
#include "encore/status.h"

namespace encore::cuda {

// One of cuBLASLt's own objects, destroyed with this.
template <typename T>
struct CublasDestroy {
  cublasStatus_t (*destroy)(T*) = nullptr;
  void operator()(T* object) const { static_cast<void>(destroy(object)); }
};
template <typename T>
using CublasObject = std::unique_ptr<T, CublasDestroy<T>>;

struct Workspace {
  void* data = nullptr;
  int64_t bytes = 0;
};

// Holds host memory only. The functions and the handle outlive it.
class CublasProduct {
 public:
  static Result<CublasProduct> create(const CublasFunctions& cublas, cublasLtHandle_t handle,
                                      const gpu::ProductShape& shape);

  // Up to `count` algorithms that fit the workspace, the library's favourite first; at least one.
  // All give the same bits every time: partial sums of a split k are added in a fixed order.
  // Errors: kUnimplemented if there is none.
  Result<std::vector<cublasLtMatmulAlgo_t>> candidates(int64_t workspace_bytes, int count) const;

  // Whether the algorithm computes this shape within the workspace on this device.
  bool serves(const cublasLtMatmulAlgo_t& algorithm, int64_t workspace_bytes) const;

  Status run(const cublasLtMatmulAlgo_t& algorithm, const gpu::ProductOperands& operands,
             const Workspace& workspace, cudaStream_t stream);

 private:
  CublasProduct(const CublasFunctions& cublas, cublasLtHandle_t handle,
                const gpu::ProductShape& shape)
      : cublas_(&cublas), handle_(handle), shape_(shape) {}

  Status describe();
  Status make_layout(cudaDataType_t type, int64_t rows, int64_t columns,
                     CublasObject<cublasLtMatrixLayoutOpaque_t>* layout);
  template <typename T>
  Status set(cublasLtMatmulDescAttributes_t attribute, const T& value);
  std::string name() const;

  const CublasFunctions* cublas_;
  cublasLtHandle_t handle_;
  gpu::ProductShape shape_;
  CublasObject<cublasLtMatmulDescOpaque_t> desc_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> w_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> x_;
  CublasObject<cublasLtMatrixLayoutOpaque_t> y_;
};

}  // namespace encore::cuda
