// Eight bf16 values as one 16-byte access, and their f32 values.
#pragma once

#include "vendor.h"

namespace encore::gpu {

struct alignas(16) Pack8 {
  bf16 values[8];
};

__device__ inline Pack8 load8(const bf16* from) { return *reinterpret_cast<const Pack8*>(from); }
__device__ inline void store8(bf16* to, const Pack8& pack) { *reinterpret_cast<Pack8*>(to) = pack; }

}  // namespace encore::gpu
