// Matrix products by rocBLAS.
#pragma once

#include <memory>

#include "blas.h"
#include "encore/status.h"
#include "rocblas_library.h"
#include "vendor.h"

namespace encore::rocm {

// rocBLAS chooses its kernels by itself, so nothing is timed. It knows no bias: a product with a
// column of ones lays it out, and the product proper accumulates.
class Rocblas final : public gpu::Blas {
 public:
  // For the current device. Errors: kUnavailable if the library is not there.
  static Result<std::unique_ptr<Rocblas>> create();
  ~Rocblas() override;
  Rocblas(const Rocblas&) = delete;
  Rocblas& operator=(const Rocblas&) = delete;

  int64_t workspace_bytes() const override;
  void set_workspace(void* workspace) override { workspace_ = workspace; }
  // Runs the product once: the library loads its kernels when they first run, and must not have to
  // in a capture.
  Status tune(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
              std::span<const void* const> weights, void* stream) override;
  Status save_tuning() override { return {}; }
  Status multiply(const gpu::ProductShape& shape, const gpu::ProductOperands& operands,
                  void* stream) override;

 private:
  Rocblas(const RocblasFunctions& rocblas, rocblas_handle handle)
      : rocblas_(rocblas), handle_(handle) {}
  // Before anything is captured.
  Status prepare(gpuStream_t stream);
  Status run(const gpu::ProductShape& shape, const gpu::ProductOperands& operands, float beta,
             gpuStream_t stream);

  RocblasFunctions rocblas_;
  rocblas_handle handle_;
  void* workspace_ = nullptr;
  bool prepared_ = false;
};

}  // namespace encore::rocm
