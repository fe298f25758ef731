#include "fibers.h"

#include <gtest/gtest.h>

#include "gpu_test_support.h"
#include "launch.cuh"
#include "warp.cuh"

namespace encore::gpu {
namespace {

using testing::DeviceBuffer;

constexpr Launch kLanes32{.lanes = 32};
constexpr Launch kLanes64{.lanes = 64};

template <int W>
__global__ void sum_kernel(const int32_t* x, int32_t n, int32_t* sums) {
  __shared__ int32_t partial[32];
  const auto i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  const int32_t total = block_sum<W>(i < n ? x[i] : 0, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <int W>
void expect_blocks_sum(const Launch& launch) {
  std::vector<int32_t> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * i % 101);
  DeviceBuffer<int32_t> values(x);
  DeviceBuffer<int32_t> sums(4);
  ENCORE_GPU_OK(launch_kernel(sum_kernel<W>, 4, 256, 0, launch, values.get(), 1000, sums.get()));
  for (size_t block = 0; block < 4; ++block) {
    int32_t expected = 0;
    for (size_t i = block * 256; i < std::min<size_t>(1000, block * 256 + 256); ++i) {
      expected += x[i];
    }
    EXPECT_EQ(sums.host()[block], expected);
  }
}

TEST(FibersTest, BlocksSumOverTheirThreads) {
  expect_blocks_sum<32>(kLanes32);
  expect_blocks_sum<64>(kLanes64);
}

__global__ void warp_kernel(uint32_t* out) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  uint32_t* mine = out + threadIdx.x * 4;
  mine[0] = __shfl_up_sync(0xffffffffU, threadIdx.x, 3);
  mine[1] = __shfl_sync(0xffffffffU, threadIdx.x, 31 - lane);
  mine[2] = __ballot_sync(0xffffffffU, lane % 3 == 0);
  mine[3] = __shfl_xor_sync(0xffU << (lane & 24), threadIdx.x, 5, 8);
}

TEST(FibersTest, LanesExchangeWithinTheirWarp) {
  DeviceBuffer<uint32_t> out(96 * 4);
  ENCORE_GPU_OK(launch_kernel(warp_kernel, 1, 96, 0, kLanes32, out.get()));
  const std::vector<uint32_t> found = out.host();
  for (uint32_t thread = 0; thread < 96; ++thread) {
    const uint32_t lane = thread % 32;
    EXPECT_EQ(found[thread * 4], lane < 3 ? thread : thread - 3);
    EXPECT_EQ(found[thread * 4 + 1], thread - lane + (31 - lane));
    EXPECT_EQ(found[thread * 4 + 2], 0x49249249U);
    EXPECT_EQ(found[thread * 4 + 3], thread ^ 5U);
  }
}

__global__ void wide_warp_kernel(uint64_t* out) {
  const auto lane = static_cast<int>(threadIdx.x % 64);
  uint64_t* mine = out + threadIdx.x * 6;
  mine[0] = __shfl_up(threadIdx.x, 3);
  mine[1] = __shfl(threadIdx.x, 63 - lane);
  mine[2] = __ballot(lane % 3 == 0);
  mine[3] = __shfl_xor(threadIdx.x, 37);
  mine[4] = __shfl_down(threadIdx.x, 20, 32);
  mine[5] = __any(lane == 40 && threadIdx.x > 64) != 0 ? 1 : 0;
}

TEST(FibersTest, WarpsOf64LanesExchangeAcrossBothHalves) {
  DeviceBuffer<uint64_t> out(192 * 6);
  ENCORE_GPU_OK(launch_kernel(wide_warp_kernel, 1, 192, 0, kLanes64, out.get()));
  const std::vector<uint64_t> found = out.host();
  for (uint64_t thread = 0; thread < 192; ++thread) {
    const uint64_t lane = thread % 64;
    EXPECT_EQ(found[thread * 6], lane < 3 ? thread : thread - 3);
    EXPECT_EQ(found[thread * 6 + 1], thread - lane + (63 - lane));
    EXPECT_EQ(found[thread * 6 + 2], 0x9249249249249249U);
    EXPECT_EQ(found[thread * 6 + 3], thread ^ 37U);
    EXPECT_EQ(found[thread * 6 + 4], lane % 32 + 20 >= 32 ? thread : thread + 20);
    EXPECT_EQ(found[thread * 6 + 5], thread < 64 ? 0 : 1);
  }
}

// Threads from `stop` on leave; the others pass values to their neighbours `rounds` times.
__global__ void ring_kernel(uint32_t stop, int rounds, uint32_t* out) {
  ENCORE_GPU_DYNAMIC_SHARED(uint32_t, ring);
  if (threadIdx.x >= stop) return;
  ring[threadIdx.x] = threadIdx.x;
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    const uint32_t next = ring[(threadIdx.x + 1) % stop];
    __syncthreads();
    ring[threadIdx.x] = next;
  }
  out[blockIdx.x * stop + threadIdx.x] = ring[threadIdx.x];
}

TEST(FibersTest, BarriersHoldForThreadsThatStay) {
  DeviceBuffer<uint32_t> out(200);
  ENCORE_GPU_OK(launch_kernel(ring_kernel, 2, dim3(16, 8), 128 * 4, {}, 16, 5, out.get()));
  // Threads are told apart by x alone: in a two-dimensional block each row would do the same.
  for (uint32_t thread = 0; thread < 16; ++thread) {
    EXPECT_EQ(out.host()[thread], out.host()[16 + thread]);
  }
  ENCORE_GPU_OK(launch_kernel(ring_kernel, 2, 128, 128 * 4, {}, 100, 7, out.get()));
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(out.host()[i], (i % 100 + 7) % 100);
}

// Each thread but the last reads its neighbour's number of the round; the barrier that keeps the
// neighbour from going on to the next round is missing. Fails only if the neighbour is ahead.
__global__ void forgetful_kernel(int rounds, int* wrong) {
  __shared__ int numbers[64];
  int mine = 0;
  for (int i = 0; i < rounds; ++i) {
    numbers[threadIdx.x] = i;
    __syncthreads();
    if (threadIdx.x < 63 && numbers[threadIdx.x + 1] != i) ++mine;
  }
  wrong[threadIdx.x] = mine;
}

TEST(FibersTest, AForgottenBarrierShows) {
  DeviceBuffer<int> wrong(64);
  ENCORE_GPU_OK(launch_kernel(forgetful_kernel, 1, 64, 0, {}, 30, wrong.get()));
  for (int thread = 0; thread < 63; ++thread) EXPECT_GT(wrong.host()[thread], 0);
}

__global__ void vote_kernel(int* out) {
  const int first = __syncthreads_or(threadIdx.x == 40);
  const int second = __syncthreads_or(threadIdx.x == 4000);
  out[threadIdx.x] = first * 2 + second;
}

TEST(FibersTest, VotesAreOfOneBarrierAlone) {
  DeviceBuffer<int> out(64);
  ENCORE_GPU_OK(launch_kernel(vote_kernel, 1, 64, 0, {}, out.get()));
  for (const int vote : out.host()) EXPECT_EQ(vote, 2);
}

__global__ void split_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncwarp(threadIdx.x == 32 ? 3U : 2U);
  }
}
// Lanes of a warp of 64 that only know of 32.
__global__ void narrow_kernel() { __shfl_xor_sync(0xffffffffU, 1, 1); }
__global__ void deserted_kernel() {
  if (threadIdx.x > 5) __shfl_xor_sync(0xffffffffU, 1, 1);
}

template <int W>
__global__ void choosy_kernel(int* out) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  *out = W;
}

TEST(FibersDeathTest, AKernelForOtherLanesIsReported) {
  DeviceBuffer<int> out(1);
  ENCORE_GPU_OK(launch_kernel(choosy_kernel<64>, 1, 64, 0, kLanes64, out.get()));
  EXPECT_EQ(out.host()[0], 64);
  EXPECT_DEATH(static_cast<void>(launch_kernel(choosy_kernel<32>, 1, 64, 0, kLanes64, out.get())),
               "for warps of 32 lanes, launched on a device of 64");
  EXPECT_DEATH(static_cast<void>(launch_kernel(choosy_kernel<64>, 1, 64, 0, kLanes32, out.get())),
               "for warps of 64 lanes, launched on a device of 32");
}

TEST(FibersDeathTest, WhatWouldHangOnAGpuIsReported) {
  EXPECT_DEATH(static_cast<void>(launch_kernel(split_kernel, 1, 34, 0, {})), "never come");
  EXPECT_DEATH(static_cast<void>(launch_kernel(deserted_kernel, 1, 32, 0, {})), "a lane left");
  EXPECT_DEATH(static_cast<void>(launch_kernel(narrow_kernel, 1, 64, 0, kLanes64)),
               "outside the mask");
  EXPECT_DEATH(static_cast<void>(launch_kernel(narrow_kernel, 1, 64, 0, Launch{.lanes = 16})),
               "32 or 64");
}

}  // namespace
}  // namespace encore::gpu
