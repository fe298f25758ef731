#include <thread>

#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

class CaptureTest : public StandinTest {
 protected:
  void begin(hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal) {
    ENCORE_HIP_OK(hipStreamBeginCapture(stream_, mode));
  }
  // Ends the capture and throws the graph away.
  hipError_t end() { return end(stream_); }
  static hipError_t end(hipStream_t stream) {
    hipGraph_t graph = nullptr;
    const hipError_t error = hipStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph == nullptr, error != hipSuccess);
    if (error == hipSuccess) return hipGraphDestroy(graph);
    return error;
  }
  // `call` fails with that error and spoils the capture.
  template <typename Call>
  void expect_invalidates(hipError_t error, Call call) {
    begin();
    EXPECT_EQ(call(), error);
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    ENCORE_HIP_OK(hipStreamIsCapturing(stream_, &status));
    EXPECT_EQ(status, hipStreamCaptureStatusInvalidated);
    EXPECT_EQ(hipMemsetAsync(numbers_, 0, 4, stream_), hipErrorStreamCaptureInvalidated);
    EXPECT_EQ(end(), hipErrorStreamCaptureInvalidated);
    ENCORE_HIP_OK(hipStreamIsCapturing(stream_, &status));
    EXPECT_EQ(status, hipStreamCaptureStatusNone);
  }

  void SetUp() override {
    StandinTest::SetUp();
    numbers_ = make_numbers(4);
  }
  int32_t* numbers_ = nullptr;
};

TEST_F(CaptureTest, RecordsWithoutRunning) {
  ENCORE_HIP_OK(hipMemsetAsync(numbers_, 0, 16, stream_));
  ENCORE_HIP_OK(hipStreamSynchronize(stream_));
  begin();
  ENCORE_HIP_OK(hipMemsetAsync(numbers_, 1, 16, stream_));
  EXPECT_EQ(end(), hipSuccess);
  EXPECT_EQ(read(numbers_, 1)[0], 0);
}

TEST_F(CaptureTest, UnsafeCallsInvalidateIt) {
  void* data = nullptr;
  expect_invalidates(hipErrorStreamCaptureUnsupported, [&] { return hipMalloc(&data, 4); });
  expect_invalidates(hipErrorStreamCaptureUnsupported, [&] { return hipHostMalloc(&data, 4, 0); });
  expect_invalidates(hipErrorStreamCaptureUnsupported, [&] { return hipFree(nullptr); });
  expect_invalidates(hipErrorStreamCaptureUnsupported, [&] { return hipMemset(numbers_, 0, 4); });
}

TEST_F(CaptureTest, WaitingInvalidatesIt) {
  expect_invalidates(hipErrorStreamCaptureUnsupported,
                     [&] { return hipStreamSynchronize(stream_); });
  expect_invalidates(hipErrorStreamCaptureUnsupported, [&] { return hipStreamQuery(stream_); });
  expect_invalidates(hipErrorStreamCaptureUnsupported, [] { return hipDeviceSynchronize(); });
  hipEvent_t event = make_event();
  for (const auto wait : {hipEventSynchronize, hipEventQuery}) {
    expect_invalidates(hipErrorCapturedEvent, [&] {
      EXPECT_EQ(hipEventRecord(event, stream_), hipSuccess);
      return wait(event);
    });
  }
}

TEST_F(CaptureTest, EventFromOutsideInvalidatesIt) {
  hipStream_t other = make_stream();
  hipEvent_t event = make_event();
  ENCORE_HIP_OK(hipEventRecord(event, other));
  expect_invalidates(hipErrorStreamCaptureIsolation,
                     [&] { return hipStreamWaitEvent(stream_, event, 0); });
}

TEST_F(CaptureTest, NullStreamMayNotWaitForIt) {
  hipStream_t blocking = make_stream(hipStreamDefault);
  ENCORE_HIP_OK(hipStreamBeginCapture(blocking, hipStreamCaptureModeThreadLocal));
  EXPECT_EQ(hipMemsetAsync(numbers_, 0, 4, nullptr), hipErrorStreamCaptureImplicit);
  EXPECT_EQ(end(blocking), hipErrorStreamCaptureInvalidated);
  EXPECT_EQ(hipStreamBeginCapture(nullptr, hipStreamCaptureModeThreadLocal),
            hipErrorStreamCaptureUnsupported);
}

TEST_F(CaptureTest, NestsNot) {
  begin();
  EXPECT_EQ(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal), hipErrorIllegalState);
  EXPECT_EQ(end(), hipSuccess);
  EXPECT_EQ(end(), hipErrorIllegalState);
}

TEST_F(CaptureTest, ThreadLocalModeLeavesOtherThreadsAlone) {
  const auto allocate_elsewhere = [] {
    hipError_t error = hipSuccess;
    std::thread([&] {
      void* data = nullptr;
      error = hipMalloc(&data, 4);
      if (error == hipSuccess) error = hipFree(data);
    }).join();
    return error;
  };
  begin(hipStreamCaptureModeThreadLocal);
  EXPECT_EQ(allocate_elsewhere(), hipSuccess);
  EXPECT_EQ(end(), hipSuccess);
  begin(hipStreamCaptureModeGlobal);
  EXPECT_EQ(allocate_elsewhere(), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), hipErrorStreamCaptureInvalidated);
  begin(hipStreamCaptureModeRelaxed);
  void* data = nullptr;
  EXPECT_EQ(hipMalloc(&data, 4), hipSuccess);
  EXPECT_EQ(hipFree(data), hipSuccess);
  EXPECT_EQ(end(), hipSuccess);
}

TEST_F(CaptureTest, ThreadMayChangeWhatItIsJudgedBy) {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  ENCORE_HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, hipStreamCaptureModeGlobal);
  begin();
  void* data = nullptr;
  EXPECT_EQ(hipMalloc(&data, 4), hipSuccess);
  EXPECT_EQ(end(), hipSuccess);
  ENCORE_HIP_OK(hipThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, hipStreamCaptureModeRelaxed);
  ENCORE_HIP_OK(hipFree(data));
}

TEST_F(CaptureTest, EndsInItsThreadAndItsStream) {
  begin();
  std::thread([&] {
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(end(), hipSuccess);

  hipStream_t other = make_stream();
  hipEvent_t event = make_event();
  begin();
  ENCORE_HIP_OK(hipEventRecord(event, stream_));
  ENCORE_HIP_OK(hipStreamWaitEvent(other, event, 0));
  EXPECT_EQ(end(other), hipErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(), hipErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, ForkedStreamMustBeJoined) {
  hipStream_t other = make_stream();
  hipEvent_t fork = make_event();
  hipEvent_t join = make_event();
  const auto record = [&] {
    begin();
    ENCORE_HIP_OK(hipMemsetAsync(numbers_, 1, 4, stream_));
    ENCORE_HIP_OK(hipEventRecord(fork, stream_));
    ENCORE_HIP_OK(hipStreamWaitEvent(other, fork, 0));
    ENCORE_HIP_OK(hipMemsetAsync(numbers_ + 1, 2, 4, other));
    ENCORE_HIP_OK(hipEventRecord(join, other));
  };
  record();
  EXPECT_EQ(end(), hipErrorStreamCaptureUnjoined);
  record();
  ENCORE_HIP_OK(hipStreamWaitEvent(stream_, join, 0));
  EXPECT_EQ(end(), hipSuccess);
  // An event of a capture that has ended orders nothing.
  EXPECT_EQ(hipStreamWaitEvent(other, join, 0), hipErrorCapturedEvent);
}

TEST_F(CaptureTest, TwoMayNotBecomeOne) {
  hipStream_t other = make_stream();
  hipEvent_t event = make_event();
  begin();
  ENCORE_HIP_OK(hipStreamBeginCapture(other, hipStreamCaptureModeThreadLocal));
  ENCORE_HIP_OK(hipEventRecord(event, other));
  EXPECT_EQ(hipStreamWaitEvent(stream_, event, 0), hipErrorStreamCaptureMerge);
  EXPECT_EQ(end(other), hipErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), hipErrorStreamCaptureInvalidated);
}

TEST_F(CaptureTest, TellsItsGraphWhileItRecords) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  hipGraph_t graph = nullptr;
  size_t count = 0;
  begin();
  ENCORE_HIP_OK(hipMemsetAsync(numbers_, 1, 4, stream_));
  ENCORE_HIP_OK(static_cast<hipError_t>(poke(numbers_, 1, 1, launch())));
  ENCORE_HIP_OK(hipStreamGetCaptureInfo_v2(stream_, &status, nullptr, &graph, nullptr, nullptr));
  EXPECT_EQ(status, hipStreamCaptureStatusActive);
  ENCORE_HIP_OK(hipGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(end(), hipSuccess);
}

TEST_F(CaptureTest, DestroyedStreamTakesItAlong) {
  hipStream_t short_lived = nullptr;
  ENCORE_HIP_OK(hipStreamCreateWithFlags(&short_lived, hipStreamNonBlocking));
  ENCORE_HIP_OK(hipStreamBeginCapture(short_lived, hipStreamCaptureModeThreadLocal));
  ENCORE_HIP_OK(hipStreamDestroy(short_lived));
  void* data = nullptr;
  ENCORE_HIP_OK(hipMalloc(&data, 4));
  ENCORE_HIP_OK(hipFree(data));
}

}  // namespace
}  // namespace encore::standin::testing
