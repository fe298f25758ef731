// The fastest of cuBLASLt's algorithms for one product, by timing.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "cublas_product.h"
#include "encore/status.h"

namespace encore::cuda {

// Calls take turns among `weights`; see gpu::Blas::tune(). Waits for the stream.
// Errors: kUnimplemented if no algorithm runs.
Result<cublasLtMatmulAlgo_t> fastest_algorithm(CublasProduct& product,
                                               const gpu::ProductOperands& operands,
                                               std::span<const void* const> weights,
                                               const Workspace& workspace, cudaStream_t stream);

}  // namespace encore::cuda
