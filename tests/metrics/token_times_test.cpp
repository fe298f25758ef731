#include "metrics/token_times.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace encore {
namespace {

TEST(TokenTimesTest, GivesTheTimeBefore) {
  TokenTimes times;
  EXPECT_EQ(times.exchange(7, 100), -1);
  EXPECT_EQ(times.exchange(7, 250), 100);
  EXPECT_EQ(times.exchange(8, 300), -1);
  EXPECT_EQ(times.size(), 2U);
  EXPECT_EQ(times.take(7), 250);
  EXPECT_EQ(times.take(7), -1);
  EXPECT_EQ(times.size(), 1U);
}

TEST(TokenTimesTest, NeverSeenIsNotTaken) {
  TokenTimes times;
  EXPECT_EQ(times.take(1), -1);
  EXPECT_EQ(times.size(), 0U);
}

// Ids that are near, that share low bits, and at both ends of the range; more than fit at first.
TEST(TokenTimesTest, AgreesWithTheStandardMap) {
  std::mt19937_64 random(42);
  std::unordered_map<RequestId, int64_t> expected;
  TokenTimes times;
  for (int64_t step = 0; step < 200'000; ++step) {
    RequestId id = 1 + random() % 700;
    if (id % 3 == 1) id <<= 40;
    if (id % 3 == 2) id = ~id;
    const auto found = expected.find(id);
    const int64_t before = found == expected.end() ? -1 : found->second;
    if (random() % 2 == 0) {
      ASSERT_EQ(times.exchange(id, step), before) << "id " << id << ", step " << step;
      expected[id] = step;
    } else {
      ASSERT_EQ(times.take(id), before) << "id " << id << ", step " << step;
      expected.erase(id);
    }
    ASSERT_EQ(times.size(), expected.size());
  }
  for (const auto& [id, us] : expected) EXPECT_EQ(times.take(id), us);
  EXPECT_EQ(times.size(), 0U);
}

}  // namespace
}  // namespace encore
