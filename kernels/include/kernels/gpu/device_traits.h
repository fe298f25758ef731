// What a kernel's launch depends on of the device it runs on.
#pragma once

#include <cstdint>

namespace encore::gpu {

// Matrix instructions.
enum class MatrixUnit : int32_t {
  kNone = 0,  // products by plain multiply-adds
  kMma = 1,   // NVIDIA's mma.sync: sm_80 and later, 32 lanes
  kMfma = 2,  // AMD CDNA 2 and 3 (gfx90a, gfx942): v_mfma_f32_16x16x16, 64 lanes
  kWmma = 3,  // AMD RDNA 3 (gfx11): v_wmma_f32_16x16x16, 32 lanes
};

struct DeviceTraits {
  int32_t compute_capability = 0;  // NVIDIA: 10 * major + minor; AMD: 0
  int32_t lanes = 32;              // of a warp; AMD calls it a wavefront: 32 or 64
  MatrixUnit matrix_unit = MatrixUnit::kNone;
  int32_t num_processors = 0;  // multiprocessors; compute units
};

}  // namespace encore::gpu
