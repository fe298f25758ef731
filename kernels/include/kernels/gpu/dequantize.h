// Weights in file formats to bf16, on the device, at load.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

// The same numbers as encore::DType.
enum class WeightFormat : int32_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kQ8_0 = 32,
  kQ4_0 = 33,
  kQ4_1 = 34,
  kQ4_K = 35,
  kQ5_K = 36,
  kQ6_K = 37,
};

// bf16 nearest even of exactly what kernels/cpu's dequantize_row gives.
struct DequantizeArgs {
  WeightFormat format = WeightFormat::kBF16;
  const void* source = nullptr;  // as in the file, 16-byte aligned
  int64_t elements = 0;          // a whole number of the format's groups
  void* destination = nullptr;   // [elements] bf16
};
LaunchError dequantize(const DequantizeArgs& args, const Launch& launch);

}  // namespace encore::gpu
