#include <thread>

#include "rccl_numbers.h"
#include "standin_test_support.h"

extern "C" {
int ncclCommInitAll(void** communicators, int num_ranks, const int* devices);
int ncclCommDestroy(void* communicator);
int ncclCommAbort(void* communicator);
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int reduction,
                  void* communicator, hipStream_t stream);
int ncclAllGather(const void* send, void* receive, size_t count, int type, void* communicator,
                  hipStream_t stream);
int ncclGroupStart();
int ncclGroupEnd();
}

namespace encore::standin::testing {
namespace {

class CollectiveTest : public StandinTest {
 protected:
  void SetUp() override {
    StandinTest::SetUp();
    ASSERT_EQ(ncclCommInitAll(communicators_, 2, nullptr), kRcclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      ENCORE_HIP_OK(hipSetDevice(rank));
      rank_streams_[rank] = make_stream();
      numbers_[rank] = make_numbers(4);
      const int32_t values[4] = {10 * rank + 1, 10 * rank + 2, 0, 0};
      ENCORE_HIP_OK(hipMemcpy(numbers_[rank], values, sizeof(values), hipMemcpyHostToDevice));
    }
    ENCORE_HIP_OK(hipSetDevice(0));
  }
  void TearDown() override {
    for (void* communicator : communicators_) {
      if (communicator == nullptr) continue;
      EXPECT_EQ(ncclCommDestroy(communicator), kRcclSuccess);
    }
    StandinTest::TearDown();
  }
  int sum(int rank, size_t count = 2) {
    return ncclAllReduce(numbers_[rank], numbers_[rank], count, kRcclInt32, kRcclSum,
                         communicators_[rank], rank_streams_[rank]);
  }
  std::vector<int32_t> result(int rank) {
    std::vector<int32_t> values(4);
    EXPECT_EQ(hipMemcpyAsync(values.data(), numbers_[rank], 16, hipMemcpyDeviceToHost,
                             rank_streams_[rank]),
              hipSuccess);
    EXPECT_EQ(hipStreamSynchronize(rank_streams_[rank]), hipSuccess);
    return values;
  }

  void* communicators_[2] = {};
  hipStream_t rank_streams_[2] = {};
  int32_t* numbers_[2] = {};
};

TEST_F(CollectiveTest, SumReachesEveryRank) {
  EXPECT_EQ(sum(0), kRcclSuccess);
  EXPECT_EQ(sum(1), kRcclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(result(rank), (std::vector<int32_t>{12, 14, 0, 0}));
  }
}

TEST_F(CollectiveTest, RankWaitsForTheOther) {
  EXPECT_EQ(sum(0), kRcclSuccess);
  for (int poll = 0; poll < 3; ++poll) {
    EXPECT_EQ(hipStreamQuery(rank_streams_[0]), hipErrorNotReady);
  }
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    EXPECT_EQ(sum(1), kRcclSuccess);
  });
  EXPECT_EQ(hipStreamSynchronize(rank_streams_[0]), hipSuccess);
  late.join();
  EXPECT_EQ(result(1)[0], 12);
}

TEST_F(CollectiveTest, PartsAreGatheredInOrderOfRanks) {
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclGroupStart(), kRcclSuccess);
    EXPECT_EQ(ncclAllGather(numbers_[rank] + 1, numbers_[rank] + 2, 1, kRcclInt32,
                            communicators_[rank], rank_streams_[rank]),
              kRcclSuccess);
    EXPECT_EQ(ncclGroupEnd(), kRcclSuccess);
  }
  EXPECT_EQ(result(0), (std::vector<int32_t>{1, 2, 2, 12}));
  EXPECT_EQ(result(1), (std::vector<int32_t>{11, 12, 2, 12}));
}

TEST_F(CollectiveTest, IsCapturedAndLaunchedAgain) {
  hipGraphExec_t executables[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    hipGraph_t graph = nullptr;
    ENCORE_HIP_OK(hipSetDevice(rank));
    ENCORE_HIP_OK(hipStreamBeginCapture(rank_streams_[rank], hipStreamCaptureModeThreadLocal));
    EXPECT_EQ(sum(rank), kRcclSuccess);
    ENCORE_HIP_OK(hipStreamEndCapture(rank_streams_[rank], &graph));
    ENCORE_HIP_OK(hipGraphInstantiate(&executables[rank], graph, nullptr, nullptr, 0));
    ENCORE_HIP_OK(hipGraphDestroy(graph));
  }
  for (int launch = 0; launch < 2; ++launch) {
    for (int rank = 0; rank < 2; ++rank) {
      ENCORE_HIP_OK(hipGraphLaunch(executables[rank], rank_streams_[rank]));
    }
  }
  EXPECT_EQ(result(0)[0], 24);  // 1 + 11, then 12 + 12
  EXPECT_EQ(result(1)[0], 24);
  for (hipGraphExec_t executable : executables) ENCORE_HIP_OK(hipGraphExecDestroy(executable));
}

TEST_F(CollectiveTest, AbortLetsTheRanksGo) {
  EXPECT_EQ(sum(0), kRcclSuccess);
  std::thread aborts([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (void*& communicator : communicators_) {
      EXPECT_EQ(ncclCommAbort(communicator), kRcclSuccess);
      communicator = nullptr;
    }
  });
  EXPECT_EQ(hipStreamSynchronize(rank_streams_[0]), hipSuccess);
  aborts.join();
}

TEST_F(CollectiveTest, RanksThatDisagreeLoseTheirDevice) {
  EXPECT_EQ(sum(0, 1), kRcclSuccess);
  EXPECT_EQ(sum(1, 2), kRcclSuccess);
  EXPECT_EQ(hipStreamSynchronize(rank_streams_[0]), hipErrorIllegalAddress);
  expect_misuses(1);
}

}  // namespace
}  // namespace encore::standin::testing
