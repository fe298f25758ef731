#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

using KernelTest = StandinTest;

TEST_F(KernelTest, RunsWithItsArguments) {
  const int32_t in[] = {1, -2, 300};
  int64_t out[3] = {};
  int32_t* device_in = make_numbers(3);
  auto* device_out = reinterpret_cast<int64_t*>(make_numbers(6));
  ENCORE_HIP_OK(hipMemcpyAsync(device_in, in, sizeof(in), hipMemcpyHostToDevice, stream_));
  ENCORE_HIP_OK(
      static_cast<hipError_t>(scale(device_in, 3, {-5, 1LL << 40}, device_out, launch())));
  ENCORE_HIP_OK(hipMemcpyAsync(out, device_out, sizeof(out), hipMemcpyDeviceToHost, stream_));
  ENCORE_HIP_OK(hipStreamSynchronize(stream_));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], in[i] * -5 + (1LL << 40));
}

TEST_F(KernelTest, WavefrontsAreThoseOfTheDevice) {
  int32_t* out = make_numbers(1);
  ENCORE_HIP_OK(static_cast<hipError_t>(count_lanes(out, launch())));
  EXPECT_EQ(read(out, 1)[0], 64);
}

TEST_F(KernelTest, LimitsOfADeviceHold) {
  EXPECT_EQ(idle(1024, 65536, launch()), hipSuccess);
  EXPECT_EQ(idle(1025, 0, launch()), hipErrorInvalidConfiguration);
  EXPECT_EQ(idle(0, 0, launch()), hipErrorInvalidConfiguration);
  EXPECT_EQ(idle(64, 65537, launch()), hipErrorInvalidValue);
}

TEST_F(KernelTest, UnknownOneIsAnError) {
  EXPECT_EQ(unknown(launch()), hipErrorInvalidDeviceFunction);
  EXPECT_EQ(
      hipLaunchKernel(reinterpret_cast<const void*>(&hipGetDevice), 1, 1, nullptr, 0, stream_),
      hipErrorInvalidDeviceFunction);
}

using KernelDeathTest = KernelTest;

// Another process, whose devices are others.
TEST_F(KernelDeathTest, ProgramWithoutCodeForTheDeviceIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("ENCORE_STANDIN_ARCH", "gfx1030", 1);
  EXPECT_EXIT(
      {
        void* out = nullptr;
        if (hipMalloc(&out, 4) != hipSuccess) std::exit(1);
        std::exit(count_lanes(static_cast<int32_t*>(out), launch()) == hipErrorNoBinaryForGpu ? 3
                                                                                              : 2);
      },
      ::testing::ExitedWithCode(3), "the program has no code of .*lanes_kernel.* for gfx1030");
  unsetenv("ENCORE_STANDIN_ARCH");
}

TEST_F(KernelDeathTest, Gfx1100HasWavefrontsOf32) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("ENCORE_STANDIN_ARCH", "gfx1100", 1);
  EXPECT_EXIT(
      {
        hipDeviceProp_t properties;
        void* out = nullptr;
        int32_t lanes = 0;
        if (hipGetDeviceProperties(&properties, 0) != hipSuccess) std::exit(1);
        if (hipMalloc(&out, 4) != hipSuccess) std::exit(1);
        const gpu::Launch narrow{.lanes = properties.warpSize};
        const auto error = count_lanes(static_cast<int32_t*>(out), narrow);
        // A build without clang-19 has no code for this one.
        if (error == hipErrorNoBinaryForGpu) std::exit(32);
        if (error != hipSuccess) std::exit(1);
        if (hipMemcpy(&lanes, out, 4, hipMemcpyDeviceToHost) != hipSuccess) std::exit(1);
        std::exit(lanes);
      },
      ::testing::ExitedWithCode(32), "");
  unsetenv("ENCORE_STANDIN_ARCH");
}

}  // namespace
}  // namespace encore::standin::testing
