// What is known of AMD's GPUs by name.
#pragma once

#include <string>
#include <string_view>

#include "kernels/gpu/device_traits.h"

namespace encore::rocm {

// "gfx90a" of the run-time's "gfx90a:sramecc+:xnack-".
std::string architecture_of(std::string_view name);

// The matrix instructions that kernels/gpu has for it.
gpu::MatrixUnit matrix_unit_of(std::string_view architecture);

// Whether `built`, such as "gfx90a, gfx942", has the architecture.
bool built_for(std::string_view built, std::string_view architecture);

}  // namespace encore::rocm
