// Matrix products by cuBLASLt, with algorithms chosen by timing.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <unordered_map>

#include "blas.h"
#include "cublas_library.h"
#include "cublas_product.h"
#include "encore/status.h"
#include "tuning_cache.h"

namespace encore::cuda {

class CublasLt final : public gpu::Blas {
 public:
  // For the current device. Reads what was tuned before from `tuning_folder`; an empty one keeps
  // nothing.
  // Errors: kUnavailable if the library or the device is not there.
  static Result<std::unique_ptr<CublasLt>> create(const std::filesystem::path& tuning_folder);
  ~CublasLt() override;
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  int64_t workspace_bytes() const override { return workspace_.bytes; }
  void set_workspace(void* workspace) override { workspace_.data = workspace; }
  Status tune(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
              std::span<const void* const> weights, void* stream) override;
  Status save_tuning() const override { return tuning_.save(); }
  Status multiply(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                  void* stream) override;

 private:
  struct ShapeHash {
    size_t operator()(const gpu::ProductShape& shape) const;
  };
  struct Prepared {
    CublasProduct product;
    cublasLtMatmulAlgo_t algorithm;
  };

  CublasLt(const CublasFunctions& cublas, cublasLtHandle_t handle, gpu::TuningCache tuning)
      : cublas_(cublas), handle_(handle), tuning_(std::move(tuning)) {}

  Status check(const gpu::ProductShape& shape, const gpu::ProductOperands& operands) const;
  Result<Prepared*> prepare(const gpu::ProductShape& shape);

  CublasFunctions cublas_;
  cublasLtHandle_t handle_;
  gpu::TuningCache tuning_;
  Workspace workspace_{nullptr, int64_t{32} << 20};  // what the library's guide asks for on Hopper
  std::unordered_map<gpu::ProductShape, Prepared, ShapeHash> prepared_;
};

}  // namespace encore::cuda
