// Where ROCm's own libraries are.
#pragma once

#include "shared_library.h"

namespace encore::rocm {

inline constexpr gpu::VendorFolder kRocmFolder = {"ROCM_PATH", "/opt/rocm"};

}  // namespace encore::rocm
