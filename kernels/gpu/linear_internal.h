// What the parts of linear() share. Not for callers of kernels/gpu/linear.h.
#pragma once

#include <cstdint>

#include "kernels/gpu/linear.h"
#include "vendor.h"

namespace encore::gpu {

struct LinearArgs {
  const bf16* x;     // [m, k]
  const bf16* w;     // [n, k]
  const bf16* bias;  // [n] or null
  void* y;           // [m, n], f32 if f32_output, else bf16
  int32_t m, n, k;
  bool f32_output;
  bool accumulate;
};

inline constexpr int32_t kLinearStreamRows = 8;

// m <= kLinearStreamRows (linear_stream.cu).
LaunchError launch_linear_stream(const LinearArgs& args, const DeviceTraits& device,
                                 const Launch& launch);
// Any m (linear_tiles.cu).
LaunchError launch_linear_tiles(const LinearArgs& args, const DeviceTraits& device,
                                const Launch& launch);

}  // namespace encore::gpu
