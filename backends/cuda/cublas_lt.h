// Matrix products by cuBLASLt, with algorithms chosen by timing.
#pragma once

#include <filesystem>
#include <memory>

#include "blas.h"
#include "encore/status.h"

namespace encore::cuda {

// For the current device. Reads what was tuned before from `tuning_folder`; an empty one keeps
// nothing.
// Errors: kUnavailable if the library or the device is not there.
Result<std::unique_ptr<gpu::Blas>> make_cublas_lt(const std::filesystem::path& tuning_folder);

}  // namespace encore::cuda
