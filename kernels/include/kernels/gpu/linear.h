// Dense matrix products by kernels of our own, for every device and any number of rows: what serves
// where a vendor's BLAS is missing.
//
//   y[m, n] = x[m, k] * w[n, k]^T  (+ bias[n])  (+ y[m, n])
//
// All row-major without gaps; bf16 operands, f32 accumulation in ascending k within a lane's share.
// An element of y does not depend on m, nor on the other rows: the same row gives the same bits in
// any product that the same kernel serves.
#pragma once

#include <cstdint>

#include "kernels/gpu/device_traits.h"
#include "kernels/gpu/launch.h"

namespace encore::gpu {

struct LinearShape {
  int32_t m = 0, n = 0, k = 0;      // k a multiple of 8; n too, for bf16
  Element output = Element::kBF16;  // or kF32, without bias
  bool accumulate = false;          // adds what y held
};

// Device memory, each aligned to 16 bytes.
struct LinearOperands {
  const void* x = nullptr;     // [m, k] bf16
  const void* w = nullptr;     // [n, k] bf16
  const void* bias = nullptr;  // [n] bf16, or null
  void* y = nullptr;           // [m, n] bf16 or f32; overlaps no other
};

// Enqueues one kernel: up to linear_max_stream_rows() rows one that streams w once, beyond them one
// of tiles, on the device's matrix unit if it has one.
// Errors: the vendor's invalid value for sizes, alignment, or a bias beside f32 output.
LaunchError linear(const LinearShape& shape, const LinearOperands& operands,
                   const DeviceTraits& device, const Launch& launch);

int32_t linear_max_stream_rows();

}  // namespace encore::gpu
