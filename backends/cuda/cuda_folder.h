// Where CUDA's own libraries are.
#pragma once

#include "shared_library.h"

namespace encore::cuda {

inline constexpr gpu::VendorFolder kCudaFolder = {"CUDA_PATH", "/usr/local/cuda"};

}  // namespace encore::cuda
