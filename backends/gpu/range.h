// Named stretches of host code, for the vendor's own profiler: "decode 64", "capture prefill 4096".
#pragma once

#include <cstdint>
#include <string_view>

#include "vendor.h"

namespace encore::gpu {

#if defined(ENCORE_GPU_HIP)
inline void push_range(std::string_view, int32_t) {}
inline void pop_range() {}
#else
// Opens a range of the calling thread, in the domain "encore"; a positive `size` is part of its
// name. Free of cost where no profiler listens. Any thread.
void push_range(std::string_view name, int32_t size);
// Closes the last one.
void pop_range();
#endif

}  // namespace encore::gpu
