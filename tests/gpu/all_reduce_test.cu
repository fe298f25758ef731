// Sums and gathers over ranks, between two GPUs, and between two streams of one GPU: the kernels do
// not know the difference.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "gpu_status.h"
#include "gpu_test_support.h"
#include "kernels/gpu/all_reduce.h"
#include "kernels/gpu/norm.h"
#include "peer_memory.h"

namespace encore::gpu::testing {
namespace {

constexpr int32_t kRanks = 2;
constexpr int64_t kMaxBytes = int64_t{1} << 20;

// Kernels are loaded before the first runs: loading one later waits for the device, and one rank's
// kernel would wait for the other's, which cannot be launched meanwhile from this one thread.
const int kEagerLoading = setenv("CUDA_MODULE_LOADING", "EAGER", 1);

enum class Where { kOneDevice, kTwoDevices };

class PeerTest : public ::testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    int count = 0;
    const int needed = GetParam() == Where::kTwoDevices ? 2 : 1;
    ASSERT_EQ(kEagerLoading, 0);
    if (gpuGetDeviceCount(&count) != gpuSuccess || count < needed) {
      GTEST_SKIP() << needed << " GPUs are needed, there are " << count;
    }
    const std::vector<int32_t> ordinals = {0, needed - 1};
    auto memory = PeerMemory::create(ordinals, kMaxBytes, account_);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_ = std::move(memory).value();
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      devices_[rank] = ordinals[rank];
      select(rank);
      ENCORE_GPU_OK(gpuStreamCreateWithFlags(&streams_[rank], gpuStreamNonBlocking));
    }
  }
  void TearDown() override {
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      if (streams_[rank] == nullptr) continue;
      select(rank);
      ENCORE_GPU_OK(gpuStreamDestroy(streams_[rank]));
    }
  }
  void select(int32_t rank) { ENCORE_GPU_OK(gpuSetDevice(devices_[rank])); }
  Launch launch(int32_t rank) const { return {streams_[rank], true}; }
  // False if the streams have not come to an end within the limit: the kernels wait for ever.
  bool finished(double seconds = 10.0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (gpuStream_t stream : streams_) {
      gpuError_t error = gpuErrorNotReady;
      while ((error = gpuStreamQuery(stream)) == gpuErrorNotReady) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
      EXPECT_EQ(error, gpuSuccess) << gpuGetErrorString(error);
    }
    return true;
  }
  template <typename T>
  std::unique_ptr<DeviceBuffer<T>> buffer(int32_t rank, const std::vector<T>& values) {
    select(rank);
    return std::make_unique<DeviceBuffer<T>>(values);
  }

  MemoryAccount account_;
  std::unique_ptr<PeerMemory> memory_;
  std::array<int32_t, kRanks> devices_ = {};
  std::array<gpuStream_t, kRanks> streams_ = {};
};

constexpr uint16_t kPoison = 0xCDCD;

void expect_normed_row(bool live, const uint16_t* x, const std::vector<uint16_t>& norm,
                       const uint16_t* found, double eps) {
  double squares = 0.0;
  for (size_t i = 0; i < norm.size(); ++i) {
    squares += static_cast<double>(from_bf16(x[i])) * from_bf16(x[i]);
  }
  const double root = std::sqrt(squares / static_cast<double>(norm.size()) + eps);
  for (size_t i = 0; i < norm.size(); ++i) {
    if (!live) {
      ASSERT_EQ(found[i], kPoison) << "element " << i;
      continue;
    }
    // One bf16 rounding, and f32 sums.
    const double expected = from_bf16(x[i]) / root * from_bf16(norm[i]);
    ASSERT_NEAR(from_bf16(found[i]), expected, std::abs(expected) * 0.00395 + 1e-30);
  }
}

struct SumCase {
  int32_t live;
  int32_t maximum;
  int32_t columns;
};
constexpr SumCase kSums[] = {{1, 1, 8},    {1, 1, 4096},   {3, 8, 2056},  {0, 4, 512},
                             {5, 5, 4096}, {64, 64, 4096}, {1, 128, 4096}};

TEST_P(PeerTest, SumsAreThoseOfF32InTheOrderOfRanksOnEveryRank) {
  uint32_t seed = 1;
  // The cases follow each other on the same inboxes, twice, so that halves and sizes mix.
  for (int32_t round = 0; round < 2; ++round) {
    for (const SumCase& size : kSums) {
      SCOPED_TRACE(std::to_string(size.live) + " of " + std::to_string(size.maximum) + " rows x " +
                   std::to_string(size.columns));
      const auto count = static_cast<size_t>(size.maximum) * size.columns;
      std::array<std::vector<uint16_t>, kRanks> inputs;
      std::array<std::unique_ptr<DeviceBuffer<uint16_t>>, kRanks> x;
      std::array<std::unique_ptr<DeviceBuffer<int32_t>>, kRanks> live;
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        inputs[rank] = random_bf16(count, ++seed);
        x[rank] = buffer(rank, inputs[rank]);
        live[rank] = buffer(rank, std::vector<int32_t>{size.live});
      }
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const PeerSumArgs args{
            memory_->peers(rank), {live[rank]->get(), size.maximum}, x[rank]->get(), size.columns};
        ENCORE_GPU_OK(peer_all_reduce(args, launch(rank)));
      }
      ASSERT_TRUE(finished());
      const size_t live_count = static_cast<size_t>(size.live) * size.columns;
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const std::vector<uint16_t> found = x[rank]->host();
        for (size_t i = 0; i < count; ++i) {
          // Exact: one f32 addition, one rounding.
          const uint16_t expected = i < live_count
                                        ? to_bf16(from_bf16(inputs[0][i]) + from_bf16(inputs[1][i]))
                                        : inputs[rank][i];
          ASSERT_EQ(found[i], expected) << "rank " << rank << ", element " << i;
        }
      }
    }
  }
}

// The sum, its rounding and the norm: each element of the norm against f64, and all bits against
// those of the two kernels.
TEST_P(PeerTest, SumsWithNormAreTheTwoKernels) {
  constexpr float kEps = 0.5F;  // large enough to show
  constexpr SumCase kNormed[] = {{1, 1, 8},    {1, 1, 4096},  {3, 8, 2056},    {0, 4, 512},
                                 {2, 3, 8200}, {6, 8, 16384}, {100, 128, 4096}};
  uint32_t seed = 1000;
  for (int32_t round = 0; round < 2; ++round) {
    for (const SumCase& size : kNormed) {
      SCOPED_TRACE(std::to_string(size.live) + " of " + std::to_string(size.maximum) + " rows x " +
                   std::to_string(size.columns));
      const auto columns = static_cast<size_t>(size.columns);
      const auto count = static_cast<size_t>(size.maximum) * columns;
      const std::vector<uint16_t> norm = random_bf16(columns, ++seed);
      std::array<std::vector<uint16_t>, kRanks> inputs;
      std::array<std::unique_ptr<DeviceBuffer<uint16_t>>, kRanks> fused, sum, weight, normed, apart;
      std::array<std::unique_ptr<DeviceBuffer<int32_t>>, kRanks> live;
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        inputs[rank] = random_bf16(count, ++seed, 3.0F);
        fused[rank] = buffer(rank, inputs[rank]);
        sum[rank] = buffer(rank, inputs[rank]);
        weight[rank] = buffer(rank, norm);
        normed[rank] = buffer(rank, std::vector<uint16_t>(count, kPoison));
        apart[rank] = buffer(rank, std::vector<uint16_t>(count, kPoison));
        live[rank] = buffer(rank, std::vector<int32_t>{size.live});
      }
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const LiveRows rows{live[rank]->get(), size.maximum};
        const Peers peers = memory_->peers(rank);
        ENCORE_GPU_OK(peer_all_reduce_norm({{peers, rows, fused[rank]->get(), size.columns},
                                            weight[rank]->get(),
                                            normed[rank]->get(),
                                            kEps},
                                           launch(rank)));
        ENCORE_GPU_OK(peer_all_reduce({peers, rows, sum[rank]->get(), size.columns}, launch(rank)));
        ENCORE_GPU_OK(rms_norm({rows, sum[rank]->get(), size.columns, weight[rank]->get(),
                                apart[rank]->get(), size.columns, size.columns, kEps},
                               launch(rank)));
      }
      ASSERT_TRUE(finished());
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const std::vector<uint16_t> hidden = fused[rank]->host();
        const std::vector<uint16_t> found = normed[rank]->host();
        ASSERT_EQ(hidden, sum[rank]->host()) << "rank " << rank;
        ASSERT_EQ(found, apart[rank]->host()) << "rank " << rank;
        for (int32_t row = 0; row < size.maximum; ++row) {
          expect_normed_row(row < size.live, &hidden[row * columns], norm, &found[row * columns],
                            kEps);
        }
      }
    }
  }
}

TEST_P(PeerTest, GathersPutThePartsSideBySide) {
  constexpr SumCase kGathers[] = {{1, 1, 64128}, {3, 5, 132}, {0, 2, 8}, {17, 32, 1000}};
  for (int32_t round = 0; round < 2; ++round) {
    for (const SumCase& size : kGathers) {
      SCOPED_TRACE(std::to_string(size.live) + " rows x " + std::to_string(size.columns));
      const auto count = static_cast<size_t>(size.maximum) * size.columns;
      std::array<std::vector<float>, kRanks> parts;
      std::array<std::unique_ptr<DeviceBuffer<float>>, kRanks> part, whole;
      std::array<std::unique_ptr<DeviceBuffer<int32_t>>, kRanks> live;
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        parts[rank].resize(count);
        for (size_t i = 0; i < count; ++i) {
          parts[rank][i] = static_cast<float>(rank * 1000000 + static_cast<int32_t>(i) + round);
        }
        part[rank] = buffer(rank, parts[rank]);
        whole[rank] = buffer(rank, std::vector<float>(count * kRanks, -1.0F));
        live[rank] = buffer(rank, std::vector<int32_t>{size.live});
      }
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const PeerGatherArgs args{memory_->peers(rank),
                                  {live[rank]->get(), size.maximum},
                                  part[rank]->get(),
                                  whole[rank]->get(),
                                  size.columns};
        ENCORE_GPU_OK(peer_all_gather(args, launch(rank)));
      }
      ASSERT_TRUE(finished());
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        select(rank);
        const std::vector<float> found = whole[rank]->host();
        for (size_t i = 0; i < found.size(); ++i) {
          const size_t row = i / (static_cast<size_t>(size.columns) * kRanks);
          const size_t column = i % (static_cast<size_t>(size.columns) * kRanks);
          const float expected =
              static_cast<int32_t>(row) < size.live
                  ? parts[column / size.columns][row * size.columns + column % size.columns]
                  : -1.0F;
          ASSERT_EQ(found[i], expected) << "rank " << rank << ", element " << i;
        }
      }
    }
  }
}

// A chain of sums and gathers in a graph a rank, replayed: every replay doubles what is there.
TEST_P(PeerTest, GraphsReplayAndNeverMixCalls) {
  constexpr int32_t kColumns = 2048;
  constexpr int32_t kSteps = 6;  // doublings a replay
  constexpr int32_t kReplays = 300;
  std::array<std::unique_ptr<DeviceBuffer<uint16_t>>, kRanks> x;
  std::array<std::unique_ptr<DeviceBuffer<float>>, kRanks> part, whole;
  std::array<std::unique_ptr<DeviceBuffer<int32_t>>, kRanks> live;
  std::array<gpuGraphExec_t, kRanks> graphs = {};
  const std::vector<uint16_t> ones(kColumns * 4, to_bf16(1.0F));
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    x[rank] = buffer(rank, ones);
    part[rank] = buffer(rank, std::vector<float>(kColumns, static_cast<float>(rank)));
    whole[rank] = buffer(rank, std::vector<float>(kColumns * kRanks));
    live[rank] = buffer(rank, std::vector<int32_t>{4, 1});
    select(rank);
    gpuGraph_t graph = nullptr;
    ENCORE_GPU_OK(gpuStreamBeginCapture(streams_[rank], gpuStreamCaptureModeThreadLocal));
    for (int32_t step = 0; step < kSteps; ++step) {
      ENCORE_GPU_OK(peer_all_reduce(
          {memory_->peers(rank), {live[rank]->get(), 4}, x[rank]->get(), kColumns}, launch(rank)));
    }
    ENCORE_GPU_OK(peer_all_gather({memory_->peers(rank),
                                   {live[rank]->get() + 1, 1},
                                   part[rank]->get(),
                                   whole[rank]->get(),
                                   kColumns},
                                  launch(rank)));
    ENCORE_GPU_OK(gpuStreamEndCapture(streams_[rank], &graph));
    ENCORE_GPU_OK(gpuGraphInstantiate(&graphs[rank], graph));
    ENCORE_GPU_OK(gpuGraphDestroy(graph));
  }
  for (int32_t replay = 0; replay < kReplays; ++replay) {
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      select(rank);
      ENCORE_GPU_OK(gpuMemcpyAsync(x[rank]->get(), ones.data(), ones.size() * 2,
                                   gpuMemcpyHostToDevice, streams_[rank]));
      ENCORE_GPU_OK(gpuGraphLaunch(graphs[rank], streams_[rank]));
    }
  }
  ASSERT_TRUE(finished(30.0));
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    select(rank);
    for (const uint16_t value : x[rank]->host()) {
      ASSERT_EQ(from_bf16(value), std::ldexp(1.0F, kSteps));
    }
    const std::vector<float> gathered = whole[rank]->host();
    for (size_t i = 0; i < gathered.size(); ++i) {
      ASSERT_EQ(gathered[i], i < kColumns ? 0.0F : 1.0F);
    }
    ENCORE_GPU_OK(gpuGraphExecDestroy(graphs[rank]));
  }
}

TEST_P(PeerTest, AbortEndsAWaitForARankThatNeverComes) {
  auto x = buffer(0, std::vector<uint16_t>(4096));
  auto live = buffer(0, std::vector<int32_t>{1});
  select(0);
  ENCORE_GPU_OK(peer_all_reduce({memory_->peers(0), {live->get(), 1}, x->get(), 4096}, launch(0)));
  EXPECT_FALSE(finished(0.2));
  memory_->abort();
  EXPECT_TRUE(finished());
}

// As when a rank fails after the others' steps were submitted: a step has a call for each half of
// each layer, and all are let go.
TEST_P(PeerTest, AbortEndsAWholeStepWithinASecond) {
  auto x = buffer(0, std::vector<uint16_t>(64 * 4096));
  auto norm = buffer(0, std::vector<uint16_t>(4096));
  auto live = buffer(0, std::vector<int32_t>{64});
  select(0);
  for (int32_t call = 0; call < 160; ++call) {
    ENCORE_GPU_OK(peer_all_reduce_norm(
        {{memory_->peers(0), {live->get(), 64}, x->get(), 4096}, norm->get(), x->get(), 1e-5F},
        launch(0)));
  }
  EXPECT_FALSE(finished(0.2));
  memory_->abort();
  EXPECT_TRUE(finished(1.0));
}

TEST_P(PeerTest, WhatCannotBeDoneIsRefused) {
  auto x = buffer(0, std::vector<uint16_t>(4096));
  auto live = buffer(0, std::vector<int32_t>{1});
  const Peers peers = memory_->peers(0);
  EXPECT_EQ(peer_all_reduce({peers, {live->get(), 1}, x->get(), 12}, launch(0)),
            gpuErrorInvalidValue);
  EXPECT_EQ(peer_all_reduce({peers, {live->get(), 129}, x->get(), 4096}, launch(0)),
            gpuErrorInvalidValue);
  EXPECT_EQ(peer_all_reduce_norm(
                {{peers, {live->get(), 1}, x->get(), 16392}, x->get(), x->get(), 1.0F}, launch(0)),
            gpuErrorInvalidValue);
  EXPECT_EQ(peer_all_gather({peers, {live->get(), 1}, x->get(), x->get(), 6}, launch(0)),
            gpuErrorInvalidValue);
}

INSTANTIATE_TEST_SUITE_P(Devices, PeerTest,
                         ::testing::Values(Where::kOneDevice, Where::kTwoDevices),
                         [](const auto& param) {
                           return param.param == Where::kOneDevice ? "One" : "Two";
                         });

}  // namespace
}  // namespace encore::gpu::testing
