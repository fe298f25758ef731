// Kernels for tests of the stand-in.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::standin::testing {

struct Scale {
  int32_t factor;
  int64_t offset;
};

// out[i] = in[i] * scale.factor + scale.offset
gpu::LaunchError scale(const int32_t* in, int32_t count, Scale how, int64_t* out,
                       const gpu::Launch& launch);
// out[0] = the number of lanes that a wavefront has.
gpu::LaunchError count_lanes(int32_t* out, const gpu::Launch& launch);
// Writes data[at] = value.
gpu::LaunchError poke(int32_t* data, int64_t at, int32_t value, const gpu::Launch& launch);
// A kernel with that much shared memory and so many threads, which does nothing.
gpu::LaunchError idle(int32_t threads, int64_t shared_bytes, const gpu::Launch& launch);
// A kernel that the library of kernels for the host does not have.
gpu::LaunchError unknown(const gpu::Launch& launch);

}  // namespace encore::standin::testing
