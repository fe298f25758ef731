// The kinds of device that kernels have variants for. Where kernels run on the host all are here;
// on a GPU, its own, and plain lanes.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "gpu_test_support.h"
#include "kernels/gpu/device_traits.h"

namespace encore::gpu {

inline void PrintTo(const DeviceTraits& device, std::ostream* out) {
  constexpr const char* kUnits[] = {"Plain", "Mma", "Mfma", "Wmma"};
  *out << kUnits[static_cast<int32_t>(device.matrix_unit)] << device.lanes;
}

namespace testing {

// The device's compute capability, 10 * major + minor; 0 on AMD.
inline int32_t compute_capability() {
#if defined(ENCORE_GPU_CUDA)
  int major = 0;
  int minor = 0;
  static_cast<void>(gpuDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  static_cast<void>(gpuDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return 10 * major + minor;
#elif defined(ENCORE_GPU_ON_CPU)
  return 80;  // what mma_on_cpu.h imitates
#else
  return 0;
#endif
}

inline std::vector<DeviceTraits> all_devices() {
  constexpr int32_t kProcessors = 16;
  return {{80, 32, MatrixUnit::kMma, kProcessors},
          {0, 64, MatrixUnit::kMfma, kProcessors},
          {0, 32, MatrixUnit::kWmma, kProcessors},
          {0, 32, MatrixUnit::kNone, kProcessors},
          {0, 64, MatrixUnit::kNone, kProcessors}};
}

inline std::string device_name(const ::testing::TestParamInfo<DeviceTraits>& info) {
  return ::testing::PrintToString(info.param);
}

// Whether kernels for a device like `device` run here.
inline bool is_device_here([[maybe_unused]] const DeviceTraits& device) {
#if defined(ENCORE_GPU_CUDA)
  return device.lanes == 32 &&
         (device.matrix_unit == MatrixUnit::kNone ||
          (device.matrix_unit == MatrixUnit::kMma && compute_capability() >= 80));
#else
  return kOnCpu;
#endif
}

}  // namespace testing
}  // namespace encore::gpu
