// What tests of GPU kernels share: device buffers, errors, random values, timing.
//
// The tests run on a GPU and are skipped where there is none. Built with ENCORE_GPU_ON_CPU they run
// the same kernels on the host, threads as fibers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "kernels/gpu/launch.h"
#include "vendor.h"

namespace encore::gpu::testing {

// Ends the test if a run-time call failed.
#define ENCORE_GPU_OK(call)                                      \
  do {                                                           \
    const auto encore_gpu_error = static_cast<gpuError_t>(call); \
    ASSERT_EQ(encore_gpu_error, gpuSuccess)                      \
        << #call << ": " << gpuGetErrorString(encore_gpu_error); \
  } while (false)

#if defined(ENCORE_GPU_ON_CPU)
inline constexpr bool kOnCpu = true;  // where a test of the same strength would take minutes
#else
inline constexpr bool kOnCpu = false;
#endif

inline bool has_device() {
  int count = 0;
  return gpuGetDeviceCount(&count) == gpuSuccess && count > 0;
}

// Fixture: skips without a device; owns a stream.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no GPU here";
    ENCORE_GPU_OK(gpuStreamCreateWithFlags(&stream_, gpuStreamNonBlocking));
    launch_.stream = stream_;
  }
  void TearDown() override {
    if (stream_ == nullptr) return;
    ENCORE_GPU_OK(gpuStreamSynchronize(stream_));
    ENCORE_GPU_OK(gpuStreamDestroy(stream_));
  }
  void sync() { ENCORE_GPU_OK(gpuStreamSynchronize(stream_)); }

  gpuStream_t stream_ = nullptr;
  Launch launch_;
};

// The widths of warps to run a test with: on the host all, on a device its own.
inline auto warp_widths() {
  std::vector<int32_t> widths = {32, 64};
  if (!kOnCpu) {
    int width = 32;  // stays where there is no device
    static_cast<void>(gpuDeviceGetAttribute(&width, gpuAttributeWarpSize, 0));
    widths = {width};
  }
  return ::testing::ValuesIn(widths);
}

// Fixture of tests that run once with each width of warps:
//   ENCORE_GPU_WARP_TEST(SomeTest);
//   TEST_P(SomeTest, ...) ...
class WarpTest : public GpuTest, public ::testing::WithParamInterface<int32_t> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    launch_.lanes = GetParam();
  }
};
#define ENCORE_GPU_WARP_TEST(name) \
  class name : public WarpTest {}; \
  INSTANTIATE_TEST_SUITE_P(Lanes, name, warp_widths(), ::testing::PrintToStringParamName())

// Device memory of `count` elements with host copies in and out. Filled with 0xCD at first, so that
// what a kernel forgets to write shows.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t count) : count_(count) {
    EXPECT_EQ(gpuMalloc(reinterpret_cast<void**>(&data_), bytes()), gpuSuccess);
    fill(0xCD);
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) { put(values); }
  ~DeviceBuffer() { static_cast<void>(gpuFree(data_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* get() { return data_; }
  size_t size() const { return count_; }
  void fill(int byte) {
    EXPECT_EQ(gpuMemsetAsync(data_, byte, bytes(), nullptr), gpuSuccess);
    EXPECT_EQ(gpuDeviceSynchronize(), gpuSuccess);
  }
  void put(std::span<const T> values) {
    ASSERT_LE(values.size(), count_);
    EXPECT_EQ(
        gpuMemcpyAsync(data_, values.data(), values.size_bytes(), gpuMemcpyHostToDevice, nullptr),
        gpuSuccess);
    EXPECT_EQ(gpuDeviceSynchronize(), gpuSuccess);
  }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    EXPECT_EQ(gpuDeviceSynchronize(), gpuSuccess);
    EXPECT_EQ(gpuMemcpyAsync(values.data(), data_, bytes(), gpuMemcpyDeviceToHost, nullptr),
              gpuSuccess);
    EXPECT_EQ(gpuDeviceSynchronize(), gpuSuccess);
    return values;
  }

 private:
  size_t bytes() const { return std::max<size_t>(count_, 1) * sizeof(T); }
  size_t count_;
  T* data_ = nullptr;
};

// bf16 on the host, as bits, nearest even.
inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 64U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline float from_bf16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

// Normal values rounded to bf16, a fixed function of `seed`.
inline std::vector<uint16_t> random_bf16(size_t count, uint32_t seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = to_bf16(normal(engine));
  return values;
}

// |found - expected| / |expected|, as vectors.
inline double relative_error(std::span<const double> found, std::span<const double> expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

// Microseconds a call of `enqueue` takes on the device: the median over `rounds` replays of a graph
// that holds it `repeats` times.
inline double median_us(gpuStream_t stream, const std::function<void(const Launch&)>& enqueue,
                        int repeats = 10, int rounds = 15) {
#if defined(ENCORE_GPU_ON_CPU)
  static_cast<void>(stream);
  static_cast<void>(repeats);
  static_cast<void>(rounds);
  enqueue({});
  return 0.0;
#else
  Launch launch;
  launch.stream = stream;
  enqueue(launch);
  static_cast<void>(gpuStreamSynchronize(stream));
  gpuGraph_t graph = nullptr;
  gpuGraphExec_t executable = nullptr;
  static_cast<void>(gpuStreamBeginCapture(stream, gpuStreamCaptureModeThreadLocal));
  for (int i = 0; i < repeats; ++i) enqueue(launch);
  static_cast<void>(gpuStreamEndCapture(stream, &graph));
  EXPECT_EQ(gpuGraphInstantiate(&executable, graph), gpuSuccess);
  gpuEvent_t begin = nullptr;
  gpuEvent_t end = nullptr;
  static_cast<void>(gpuEventCreateWithFlags(&begin, 0));
  static_cast<void>(gpuEventCreateWithFlags(&end, 0));
  std::vector<double> times;
  for (int i = 0; i < rounds + 3; ++i) {
    static_cast<void>(gpuEventRecord(begin, stream));
    static_cast<void>(gpuGraphLaunch(executable, stream));
    static_cast<void>(gpuEventRecord(end, stream));
    static_cast<void>(gpuEventSynchronize(end));
    float ms = 0.0F;
    static_cast<void>(gpuEventElapsedTime(&ms, begin, end));
    if (i >= 3) times.push_back(1000.0 * ms / repeats);
  }
  static_cast<void>(gpuEventDestroy(begin));
  static_cast<void>(gpuEventDestroy(end));
  static_cast<void>(gpuGraphExecDestroy(executable));
  static_cast<void>(gpuGraphDestroy(graph));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
#endif
}

}  // namespace encore::gpu::testing
