#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

using FaultTest = StandinTest;

TEST_F(FaultTest, TheNthCallFailsAndIsCounted) {
  void* data = nullptr;
  encore_standin_fail("hipMalloc:2:2");
  ENCORE_HIP_OK(hipMalloc(&data, 4));
  ENCORE_HIP_OK(hipFree(data));
  EXPECT_EQ(hipMalloc(&data, 4), hipErrorOutOfMemory);
  ENCORE_HIP_OK(hipMalloc(&data, 4));
  ENCORE_HIP_OK(hipFree(data));
  EXPECT_EQ(encore_standin_calls("hipMalloc"), 3);
  EXPECT_STREQ(encore_standin_all_calls(), "hipFree 2\nhipMalloc 3\n");
  EXPECT_EQ(hipGetLastError(), hipErrorOutOfMemory);
}

TEST_F(FaultTest, LostDeviceStaysLostAndTheOtherWorks) {
  int32_t* numbers = make_numbers(1);
  encore_standin_fail("hipMemcpyAsync:1:999");
  int32_t host = 3;
  EXPECT_EQ(hipMemcpyAsync(&host, numbers, 4, hipMemcpyDeviceToHost, stream_), hipErrorUnknown);
  EXPECT_EQ(hipStreamSynchronize(stream_), hipErrorUnknown);
  EXPECT_EQ(hipGetLastError(), hipErrorUnknown);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(hipMemGetInfo(&free, &total), hipErrorUnknown);
  ENCORE_HIP_OK(hipSetDevice(1));
  EXPECT_EQ(hipMemGetInfo(&free, &total), hipSuccess);
  ENCORE_HIP_OK(hipSetDevice(0));
}

TEST_F(FaultTest, OperationThatFailsIsToldToWhoWaits) {
  int32_t* numbers = make_numbers(1);
  hipEvent_t event = make_event();
  encore_standin_fail("operation:2:700");
  ENCORE_HIP_OK(hipMemsetAsync(numbers, 1, 4, stream_));
  ENCORE_HIP_OK(static_cast<hipError_t>(poke(numbers, 0, 5, launch())));
  ENCORE_HIP_OK(hipEventRecord(event, stream_));
  EXPECT_EQ(hipEventSynchronize(event), hipErrorIllegalAddress);
  EXPECT_EQ(hipMemsetAsync(numbers, 1, 4, stream_), hipErrorIllegalAddress);
}

TEST_F(FaultTest, WhatIsReleasedOnALostDeviceIsReleased) {
  void* data = nullptr;
  hipStream_t stream = nullptr;
  ENCORE_HIP_OK(hipMalloc(&data, 4));
  ENCORE_HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  encore_standin_fail("hipMemsetAsync:1:719");
  EXPECT_EQ(hipMemsetAsync(data, 0, 4, stream), hipErrorLaunchFailure);
  EXPECT_EQ(hipFree(data), hipErrorLaunchFailure);
  EXPECT_EQ(hipStreamDestroy(stream), hipErrorLaunchFailure);
}

}  // namespace
}  // namespace encore::standin::testing
