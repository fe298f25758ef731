// NCCL as the CUDA backend finds it.
#pragma once

#include "encore/status.h"
#include "nccl_library.h"

namespace encore::cuda {

// Opens libnccl.so.2 where the loader finds it, or in $CUDA_PATH and /usr/local/cuda.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<gpu::NcclFunctions> open_nccl();

}  // namespace encore::cuda
