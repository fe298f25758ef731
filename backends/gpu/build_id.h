// What tells one build of this library from another.
#pragma once

#include <string>

namespace encore::gpu {

// The GNU build id of the shared library (or program) that this code is part of, as hex; empty if
// it was linked without one.
std::string own_build_id();

}  // namespace encore::gpu
