// RCCL as the ROCm backend finds it.
#pragma once

#include "encore/status.h"
#include "nccl_library.h"

namespace encore::rocm {

// Opens librccl.so.1 where the loader finds it, or in $ROCM_PATH and /opt/rocm.
// Errors: kUnavailable, naming what was tried and why each failed.
Result<gpu::NcclFunctions> open_rccl();

}  // namespace encore::rocm
