// Matrix products by hipBLASLt, with algorithms chosen by timing.
#pragma once

#include <filesystem>
#include <memory>

#include "blas.h"
#include "encore/status.h"

namespace encore::rocm {

// For the current device. Reads what was tuned before from `tuning_folder`; an empty one keeps
// nothing. hipBLASLt does not promise the same bits from one run to the next, so what timing would
// choose is tried for that; a shape that was never tuned takes the library's first choice untried.
// Errors: kUnavailable if the library cannot be opened, is of another version than this build, or
// has no kernels for the device.
Result<std::unique_ptr<gpu::Blas>> make_hipblaslt(const std::filesystem::path& tuning_folder);

}  // namespace encore::rocm
