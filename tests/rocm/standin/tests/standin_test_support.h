// What tests of the stand-in share: two devices, a stream, memory, and that nothing is left.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <vector>

#include "control.h"
#include "test_kernels.h"

namespace encore::standin::testing {

#define ENCORE_HIP_OK(call) ASSERT_EQ(call, hipSuccess)

// Fixture: every test begins with devices that work, and ends with nothing held and nothing used
// wrongly but as often as it says.
class StandinTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void expect_misuses(int64_t count) { expected_misuses_ += count; }
  hipStream_t make_stream(unsigned flags = hipStreamNonBlocking);
  hipEvent_t make_event(unsigned flags = 0);
  // `count` integers on the current device.
  int32_t* make_numbers(size_t count);
  // Those on the device, after the stream has done its work.
  std::vector<int32_t> read(const int32_t* data, size_t count);
  gpu::Launch launch() const { return {.stream = stream_, .lanes = 64}; }

  hipStream_t stream_ = nullptr;

 private:
  std::vector<hipStream_t> streams_;
  std::vector<hipEvent_t> events_;
  std::vector<void*> memory_;
  int64_t misuses_ = 0;
  int64_t expected_misuses_ = 0;
};

}  // namespace encore::standin::testing
