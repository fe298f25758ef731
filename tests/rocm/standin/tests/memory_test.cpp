#include <cmath>
#include <cstring>

#include "standin_test_support.h"

namespace encore::standin::testing {
namespace {

using MemoryTest = StandinTest;

TEST_F(MemoryTest, FreshMemoryIsNoNumber) {
  const int32_t bits = read(make_numbers(1), 1)[0];
  float value = 0.0F;
  std::memcpy(&value, &bits, sizeof(value));
  EXPECT_TRUE(std::isnan(value));
}

TEST_F(MemoryTest, DeviceHasSoMuchAndNoMore) {
  size_t free = 0;
  size_t total = 0;
  void* data = nullptr;
  ENCORE_HIP_OK(hipMemGetInfo(&free, &total));
  EXPECT_EQ(free, 1048576U);
  EXPECT_EQ(hipMalloc(&data, free + 1), hipErrorOutOfMemory);
  ENCORE_HIP_OK(hipMalloc(&data, free));
  void* one = nullptr;
  EXPECT_EQ(hipMalloc(&one, 1), hipErrorOutOfMemory);
  ENCORE_HIP_OK(hipSetDevice(1));
  ENCORE_HIP_OK(hipMalloc(&one, 1));  // the other device has its own
  ENCORE_HIP_OK(hipFree(one));
  ENCORE_HIP_OK(hipSetDevice(0));
  ENCORE_HIP_OK(hipFree(data));
}

TEST_F(MemoryTest, ExecutablesTakeSomeOfIt) {
  int32_t* data = make_numbers(4);
  size_t before = 0;
  size_t with_two = 0;
  size_t after = 0;
  size_t total = 0;
  ENCORE_HIP_OK(hipMemGetInfo(&before, &total));
  ENCORE_HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  ENCORE_HIP_OK(hipMemsetAsync(data, 0, 8, stream_));
  ENCORE_HIP_OK(hipMemsetAsync(data + 2, 1, 8, stream_));
  hipGraph_t graph = nullptr;
  ENCORE_HIP_OK(hipStreamEndCapture(stream_, &graph));
  hipGraphExec_t executable = nullptr;
  ENCORE_HIP_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  ENCORE_HIP_OK(hipMemGetInfo(&with_two, &total));
  EXPECT_EQ(before - with_two, 8192U);
  ENCORE_HIP_OK(hipGraphExecDestroy(executable));
  ENCORE_HIP_OK(hipGraphDestroy(graph));
  ENCORE_HIP_OK(hipMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(MemoryTest, CopiesAndFillsStayWithinTheirAllocation) {
  int32_t* device = make_numbers(4);
  int32_t host[8] = {};
  EXPECT_EQ(hipMemcpyAsync(device, host, 20, hipMemcpyHostToDevice, stream_), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpyAsync(host, device + 1, 16, hipMemcpyDeviceToHost, stream_),
            hipErrorInvalidValue);
  EXPECT_EQ(hipMemsetAsync(device + 3, 0, 5, stream_), hipErrorInvalidValue);
  EXPECT_EQ(hipMemsetAsync(host, 0, 4, stream_), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpyAsync(nullptr, device, 4, hipMemcpyDeviceToHost, stream_),
            hipErrorInvalidValue);
  expect_misuses(5);
  ENCORE_HIP_OK(hipMemcpyAsync(device, host, 16, hipMemcpyHostToDevice, stream_));
}

TEST_F(MemoryTest, DirectionIsThatOfTheMemory) {
  int32_t* device = make_numbers(1);
  int32_t host = 0;
  EXPECT_EQ(hipMemcpyAsync(&host, device, 4, hipMemcpyHostToDevice, stream_),
            hipErrorInvalidMemcpyDirection);
  EXPECT_EQ(hipMemcpyAsync(device, &host, 4, hipMemcpyDeviceToDevice, stream_),
            hipErrorInvalidMemcpyDirection);
  expect_misuses(2);
  ENCORE_HIP_OK(hipMemcpyAsync(device, &host, 4, hipMemcpyDefault, stream_));
}

TEST_F(MemoryTest, FreeWaitsForTheDevice) {
  void* device = nullptr;
  int32_t host = 0;
  ENCORE_HIP_OK(hipMalloc(&device, 4));
  ENCORE_HIP_OK(hipMemsetAsync(device, 3, 4, stream_));
  ENCORE_HIP_OK(hipMemcpyAsync(&host, device, 4, hipMemcpyDeviceToHost, stream_));
  ENCORE_HIP_OK(hipFree(device));
  EXPECT_EQ(host, 0x03030303);
}

TEST_F(MemoryTest, FreedMemoryIsGone) {
  void* device = nullptr;
  ENCORE_HIP_OK(hipMalloc(&device, 64));
  ENCORE_HIP_OK(hipFree(device));
  EXPECT_EQ(hipFree(device), hipErrorInvalidValue);
  EXPECT_EQ(hipMemsetAsync(device, 0, 4, stream_), hipErrorInvalidValue);
  void* host = nullptr;
  ENCORE_HIP_OK(hipHostMalloc(&host, 64, 0));
  EXPECT_EQ(hipFree(host), hipErrorInvalidValue);
  ENCORE_HIP_OK(hipHostFree(host));
  expect_misuses(3);
  ENCORE_HIP_OK(hipFree(nullptr));
}

TEST_F(MemoryTest, FreedInItsStreamItServesUntilThen) {
  void* device = nullptr;
  int32_t host = 0;
  ENCORE_HIP_OK(hipMallocAsync(&device, 4, stream_));
  ENCORE_HIP_OK(hipMemsetAsync(device, 5, 4, stream_));
  ENCORE_HIP_OK(hipMemcpyAsync(&host, device, 4, hipMemcpyDeviceToHost, stream_));
  ENCORE_HIP_OK(hipFreeAsync(device, stream_));
  ENCORE_HIP_OK(hipStreamSynchronize(stream_));
  EXPECT_EQ(host, 0x05050505);
  EXPECT_EQ(hipFree(device), hipErrorInvalidValue);
  expect_misuses(1);
}

TEST_F(MemoryTest, WriteBesideAnAllocationIsFound) {
  void* device = nullptr;
  ENCORE_HIP_OK(hipMalloc(&device, 12));
  ENCORE_HIP_OK(static_cast<hipError_t>(poke(static_cast<int32_t*>(device), 3, 1, launch())));
  ENCORE_HIP_OK(hipFree(device));
  expect_misuses(1);
  ENCORE_HIP_OK(hipMalloc(&device, 12));
  ENCORE_HIP_OK(static_cast<hipError_t>(poke(static_cast<int32_t*>(device), -1, 1, launch())));
  ENCORE_HIP_OK(hipFree(device));
  expect_misuses(1);
}

using MemoryDeathTest = MemoryTest;

TEST_F(MemoryDeathTest, KernelThatLeavesItsMemoryIsNamed) {
  int32_t* device = make_numbers(64);
  EXPECT_DEATH(
      {
        static_cast<void>(poke(device, 1024, 1, launch()));
        static_cast<void>(hipStreamSynchronize(stream_));
      },
      "poke_kernel.* touches .*: byte 4096 of 256 bytes of device memory that are allocated");
  void* freed = nullptr;
  ENCORE_HIP_OK(hipMalloc(&freed, 256));
  ENCORE_HIP_OK(hipFree(freed));
  EXPECT_DEATH(
      {
        static_cast<void>(poke(static_cast<int32_t*>(freed), 2, 1, launch()));
        static_cast<void>(hipStreamSynchronize(stream_));
      },
      "poke_kernel.* touches .*: byte 8 of 256 bytes of device memory that are freed");
}

TEST_F(MemoryTest, PeersAreEnabledOnce) {
  int can = 0;
  ENCORE_HIP_OK(hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ENCORE_HIP_OK(hipDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  ENCORE_HIP_OK(hipDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(hipDeviceEnablePeerAccess(0, 0), hipErrorInvalidDevice);
}

}  // namespace
}  // namespace encore::standin::testing
