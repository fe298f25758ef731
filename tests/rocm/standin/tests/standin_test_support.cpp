#include "standin_test_support.h"

#include <cstdlib>

namespace encore::standin::testing {
namespace {

// Before the first call.
[[maybe_unused]] const bool kEnvironment = [] {
  setenv("ENCORE_STANDIN_DEVICES", "2", 1);
  setenv("ENCORE_STANDIN_MEMORY", "1048576", 1);
  setenv("ENCORE_STANDIN_KERNELS", STANDIN_TEST_KERNELS, 1);
  return true;
}();

}  // namespace

void StandinTest::SetUp() {
  encore_standin_fail("");
  misuses_ = encore_standin_misuses();
  ENCORE_HIP_OK(hipSetDevice(0));
  stream_ = make_stream();
}

void StandinTest::TearDown() {
  encore_standin_fail("");
  for (hipStream_t stream : streams_) {
    EXPECT_EQ(hipStreamSynchronize(stream), hipSuccess);
    EXPECT_EQ(hipStreamDestroy(stream), hipSuccess);
  }
  for (hipEvent_t event : events_) EXPECT_EQ(hipEventDestroy(event), hipSuccess);
  for (void* memory : memory_) EXPECT_EQ(hipFree(memory), hipSuccess);
  EXPECT_STREQ(encore_standin_held(), "");
  EXPECT_EQ(encore_standin_misuses() - misuses_, expected_misuses_);
  static_cast<void>(hipGetLastError());
}

hipStream_t StandinTest::make_stream(unsigned flags) {
  hipStream_t stream = nullptr;
  EXPECT_EQ(hipStreamCreateWithFlags(&stream, flags), hipSuccess);
  streams_.push_back(stream);
  return stream;
}

hipEvent_t StandinTest::make_event(unsigned flags) {
  hipEvent_t event = nullptr;
  EXPECT_EQ(hipEventCreateWithFlags(&event, flags), hipSuccess);
  events_.push_back(event);
  return event;
}

int32_t* StandinTest::make_numbers(size_t count) {
  void* data = nullptr;
  EXPECT_EQ(hipMalloc(&data, count * sizeof(int32_t)), hipSuccess);
  memory_.push_back(data);
  return static_cast<int32_t*>(data);
}

std::vector<int32_t> StandinTest::read(const int32_t* data, size_t count) {
  std::vector<int32_t> values(count);
  EXPECT_EQ(
      hipMemcpyAsync(values.data(), data, count * sizeof(int32_t), hipMemcpyDeviceToHost, stream_),
      hipSuccess);
  EXPECT_EQ(hipStreamSynchronize(stream_), hipSuccess);
  return values;
}

}  // namespace encore::standin::testing
