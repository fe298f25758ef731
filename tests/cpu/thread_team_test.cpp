#include "thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "plan.h"

namespace encore::cpu {
namespace {

struct AddArgs {
  int64_t* values;
  int64_t count;
  int64_t amount;
};

void add_share(const AddArgs& args, const kernels::Worker& worker) {
  const kernels::Share share = kernels::share_of(args.count, worker.index, worker.count);
  for (int64_t i = share.begin; i < share.end; ++i) args.values[i] += args.amount;
}

// Each element becomes the sum of all: wrong unless every member saw what all wrote before.
struct SumArgs {
  const int64_t* source;
  int64_t* target;
  int64_t count;
};

void sum_all(const SumArgs& args, const kernels::Worker& worker) {
  const kernels::Share share = kernels::share_of(args.count, worker.index, worker.count);
  for (int64_t i = share.begin; i < share.end; ++i) {
    args.target[i] = std::accumulate(args.source, args.source + args.count, int64_t{0});
  }
}

class ThreadTeamSize : public ::testing::TestWithParam<size_t> {
 protected:
  ThreadTeam team_{std::vector<int32_t>(GetParam(), 0), false};
};

TEST_P(ThreadTeamSize, NodesSeeWhatEarlierNodesWrote) {
  std::vector<int64_t> values(100, 0);
  std::vector<int64_t> sums(100, 0);
  Plan plan;
  plan.add<AddArgs>(add_share, {values.data(), 100, 1});
  plan.add<SumArgs>(sum_all, {values.data(), sums.data(), 100});
  plan.add<AddArgs>(add_share, {values.data(), 100, 1});
  for (int64_t replay = 0; replay < 200; ++replay) {
    team_.run(plan.nodes());
    ASSERT_EQ(sums, std::vector<int64_t>(100, 100 * (2 * replay + 1)));
  }
  EXPECT_EQ(values, std::vector<int64_t>(100, 400));
}

TEST_P(ThreadTeamSize, WakesAfterSleep) {
  std::vector<int64_t> values(10, 0);
  for (int32_t round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team_.run<AddArgs>(add_share, {values.data(), 10, 1});
  }
  EXPECT_EQ(values, std::vector<int64_t>(10, 3));
}

TEST_P(ThreadTeamSize, CallersTakeTurns) {
  std::vector<int64_t> values(64, 0);
  const auto call = [&]() {
    for (int32_t i = 0; i < 200; ++i) team_.run<AddArgs>(add_share, {values.data(), 64, 1});
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(values, std::vector<int64_t>(64, 400));
}

// Each member writes the whole of its scratch.
struct FillArgs {
  size_t bytes;
  int64_t* enough;  // members whose scratch holds that much
};

void fill_scratch(const FillArgs& args, const kernels::Worker& worker) {
  if (worker.scratch == nullptr || worker.scratch_bytes < args.bytes) return;
  std::memset(worker.scratch, worker.index, args.bytes);
  std::atomic_ref(*args.enough).fetch_add(1);
}

TEST_P(ThreadTeamSize, WithoutMemoryForMoreScratchItKeepsWhatItHas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process when memory is out";
#endif
  team_.reserve_scratch(4096);
  EXPECT_THROW(team_.reserve_scratch(size_t{1} << 60), std::bad_alloc);
  int64_t enough = 0;
  team_.run<FillArgs>(fill_scratch, {4096, &enough});
  EXPECT_EQ(enough, team_.size());
  EXPECT_EQ(team_.scratch_bytes(), 4096 * team_.size());
}

TEST_P(ThreadTeamSize, AnEmptyPlanIsNoWork) {
  team_.run(Plan{}.nodes());
  EXPECT_EQ(team_.size(), static_cast<int32_t>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamSize, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace encore::cpu
