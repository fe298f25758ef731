#include <thread>

#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

using StreamTest = StandinTest;

TEST_F(StreamTest, WhatForgetsToWaitFindsTheOldValue) {
  int32_t* device = make_numbers(1);
  int32_t host = 1;
  ENCORE_HIP_OK(hipMemsetAsync(device, 7, 4, stream_));
  ENCORE_HIP_OK(hipMemcpyAsync(&host, device, 4, hipMemcpyDeviceToHost, stream_));
  EXPECT_EQ(host, 1);
  ENCORE_HIP_OK(hipStreamSynchronize(stream_));
  EXPECT_EQ(host, 0x07070707);
}

TEST_F(StreamTest, BufferThatIsReusedTooEarlyIsCopiedAsItIsThen) {
  int32_t* device = make_numbers(1);
  int32_t host = 1;
  ENCORE_HIP_OK(hipMemcpyAsync(device, &host, 4, hipMemcpyHostToDevice, stream_));
  host = 2;
  EXPECT_EQ(read(device, 1)[0], 2);
}

TEST_F(StreamTest, FirstPollRunsOneOperationAndEachFurtherOneTwiceAsMany) {
  int32_t* device = make_numbers(1);
  for (int i = 0; i < 4; ++i) ENCORE_HIP_OK(hipMemsetAsync(device, i, 4, stream_));
  EXPECT_EQ(hipStreamQuery(stream_), hipErrorNotReady);
  EXPECT_EQ(hipStreamQuery(stream_), hipErrorNotReady);
  EXPECT_EQ(hipStreamQuery(stream_), hipSuccess);

  hipEvent_t event = make_event(hipEventDisableTiming);
  EXPECT_EQ(hipEventQuery(event), hipSuccess);  // never recorded
  ENCORE_HIP_OK(hipMemsetAsync(device, 9, 4, stream_));
  ENCORE_HIP_OK(hipEventRecord(event, stream_));
  ENCORE_HIP_OK(hipMemsetAsync(device, 10, 4, stream_));
  EXPECT_EQ(hipEventQuery(event), hipErrorNotReady);
  EXPECT_EQ(hipEventQuery(event), hipSuccess);
  EXPECT_EQ(hipStreamQuery(stream_), hipSuccess);
}

TEST_F(StreamTest, StreamsAreOrderedByEventsAlone) {
  hipStream_t other = make_stream();
  int32_t* device = make_numbers(2);
  hipEvent_t event = make_event();
  int32_t host[2] = {0, 0};
  ENCORE_HIP_OK(hipMemsetAsync(device, 1, 4, stream_));
  ENCORE_HIP_OK(hipEventRecord(event, stream_));
  ENCORE_HIP_OK(hipMemsetAsync(device + 1, 1, 4, stream_));
  ENCORE_HIP_OK(hipStreamWaitEvent(other, event, 0));
  ENCORE_HIP_OK(hipMemcpyAsync(host, device, 8, hipMemcpyDeviceToHost, other));
  ENCORE_HIP_OK(hipStreamSynchronize(other));
  EXPECT_EQ(host[0], 0x01010101);  // before the event
  EXPECT_EQ(host[1], -1);          // after it: not written yet
}

TEST_F(StreamTest, NullStreamWaitsForBlockingStreamsOnly) {
  hipStream_t blocking = make_stream(hipStreamDefault);
  int32_t* device = make_numbers(2);
  int32_t host[2] = {0, 0};
  ENCORE_HIP_OK(hipMemsetAsync(device, 1, 4, blocking));
  ENCORE_HIP_OK(hipMemsetAsync(device + 1, 1, 4, stream_));
  ENCORE_HIP_OK(hipMemcpy(host, device, 8, hipMemcpyDeviceToHost));
  EXPECT_EQ(host[0], 0x01010101);
  EXPECT_EQ(host[1], -1);
}

TEST_F(StreamTest, StreamThatIsDestroyedBeforeItsWorkIsMisuse) {
  hipStream_t short_lived = nullptr;
  ENCORE_HIP_OK(hipStreamCreateWithFlags(&short_lived, hipStreamNonBlocking));
  ENCORE_HIP_OK(hipMemsetAsync(make_numbers(1), 0, 4, short_lived));
  ENCORE_HIP_OK(hipStreamDestroy(short_lived));
  expect_misuses(1);
  EXPECT_EQ(hipStreamSynchronize(short_lived), hipErrorInvalidHandle);
  EXPECT_EQ(hipStreamDestroy(short_lived), hipErrorInvalidHandle);
}

TEST_F(StreamTest, TimesAreOfEventsThatHaveRun) {
  hipEvent_t start = make_event();
  hipEvent_t stop = make_event();
  hipEvent_t untimed = make_event(hipEventDisableTiming);
  float milliseconds = -1.0F;
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorInvalidHandle);
  ENCORE_HIP_OK(hipEventRecord(start, stream_));
  ENCORE_HIP_OK(hipEventRecord(stop, stream_));
  ENCORE_HIP_OK(hipEventRecord(untimed, stream_));
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorNotReady);
  ENCORE_HIP_OK(hipEventSynchronize(untimed));
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, untimed), hipErrorInvalidHandle);
  ENCORE_HIP_OK(hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GE(milliseconds, 0.0F);
}

TEST_F(StreamTest, EachThreadHasItsDeviceAndItsLastError) {
  ENCORE_HIP_OK(hipSetDevice(1));
  std::thread([] {
    int device = -1;
    EXPECT_EQ(hipGetDevice(&device), hipSuccess);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(hipSetDevice(2), hipErrorInvalidDevice);
    EXPECT_EQ(hipPeekAtLastError(), hipErrorInvalidDevice);
    EXPECT_EQ(hipGetLastError(), hipErrorInvalidDevice);
    EXPECT_EQ(hipGetLastError(), hipSuccess);
    EXPECT_EQ(hipSetDevice(7), hipErrorInvalidDevice);
  }).join();
  int device = -1;
  ENCORE_HIP_OK(hipGetDevice(&device));
  EXPECT_EQ(device, 1);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
  ENCORE_HIP_OK(hipSetDevice(0));
}

TEST_F(StreamTest, KernelGoesIntoAStreamOfTheCurrentDevice) {
  int32_t* device = make_numbers(1);
  ENCORE_HIP_OK(hipSetDevice(1));
  EXPECT_EQ(poke(device, 0, 1, launch()), hipErrorInvalidHandle);
  expect_misuses(1);
  ENCORE_HIP_OK(hipSetDevice(0));
}

}  // namespace
}  // namespace encore::standin::testing
