#include "rank_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace encore::lowering {
namespace {

constexpr RankTeam::Limits kLimits{10'000'000, 10'000'000, 10'000'000, 10'000'000};
const RankTeam::Hooks kNoHooks{[] {}, {}};

TEST(RankTeam, EachRankHasAThreadOfItsOwnAndKeepsIt) {
  auto team = RankTeam::create(3);
  ASSERT_TRUE(team.ok());
  std::vector<std::thread::id> first(3);
  ASSERT_TRUE((*team)->run(
      [&](int32_t rank) -> Status {
        first[static_cast<size_t>(rank)] = std::this_thread::get_id();
        return {};
      },
      kLimits, kNoHooks));
  EXPECT_EQ(std::set<std::thread::id>(first.begin(), first.end()).size(), 3U);
  for (int32_t round = 0; round < 2000; ++round) {
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // asleep
    ASSERT_TRUE((*team)->run(
        [&](int32_t rank) -> Status {
          const bool same = first[static_cast<size_t>(rank)] == std::this_thread::get_id();
          return same ? Status() : internal_error("another thread");
        },
        kLimits, kNoHooks));
    for (int32_t rank = 0; rank < 3; ++rank) ASSERT_TRUE((*team)->status(rank).ok());
  }
}

TEST(RankTeam, ErrorsAreKeptByRank) {
  auto team = RankTeam::create(2);
  ASSERT_TRUE(team.ok());
  ASSERT_TRUE((*team)->run([](int32_t rank) { return rank == 1 ? internal_error("no") : Status(); },
                           kLimits, kNoHooks));
  EXPECT_TRUE((*team)->status(0).ok());
  EXPECT_EQ((*team)->status(1).message(), "no");
}

TEST(RankTeam, ARankThatWaitsForAFailedOneIsFreedByAbort) {
  auto team = RankTeam::create(2);
  ASSERT_TRUE(team.ok());
  std::atomic<bool> aborted{false};
  RankTeam::Limits limits = kLimits;
  limits.after_error_us = 20'000;
  const bool answered = (*team)->run(
      [&](int32_t rank) -> Status {
        if (rank == 1) return internal_error("no");
        while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return cancelled("freed");
      },
      limits, {[&] { aborted = true; }, {}});
  EXPECT_TRUE(answered);
  EXPECT_EQ((*team)->status(0).message(), "freed");
}

TEST(RankTeam, IsLostIfARankNeverAnswers) {
  static std::atomic<bool> release{false};  // outlives the thread left behind
  auto team = RankTeam::create(2);
  ASSERT_TRUE(team.ok());
  const RankTeam::Limits limits{10'000'000, 20'000, 20'000, 20'000};
  const auto call = [](int32_t rank) -> Status {
    while (rank == 1 && !release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  };
  EXPECT_FALSE((*team)->run(call, limits, kNoHooks));
  EXPECT_TRUE((*team)->lost());
  EXPECT_TRUE((*team)->answered(0));
  EXPECT_FALSE((*team)->answered(1));
  release = true;
}

}  // namespace
}  // namespace encore::lowering
