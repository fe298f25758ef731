#include "encore/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace encore {
namespace {

using testing::ElementsAre;

TEST(BucketsTest, SizesAreSortedDistinctAndEndAtTheMaximum) {
  const std::vector<int32_t> given = {8, 2, 113, 2, 4, 1};
  const auto buckets = Buckets::create(given, 6);
  ASSERT_TRUE(buckets.ok());
  EXPECT_THAT(buckets->sizes(), ElementsAre(1, 2, 4, 6));
  EXPECT_EQ(buckets->maximum(), 6);
}

TEST(BucketsTest, SizesBelowOneAreRefused) {
  const std::vector<int32_t> zero = {0, 4};
  EXPECT_EQ(Buckets::create(zero, 8).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Buckets::create({}, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(BucketsTest, PaddingFindsTheSmallestThatHolds) {
  const std::vector<int32_t> given = {1, 4, 8};
  const auto buckets = Buckets::create(given, 12);
  ASSERT_TRUE(buckets.ok());
  EXPECT_EQ(buckets->find(1, true), 0);
  EXPECT_EQ(buckets->find(2, true), 1);
  EXPECT_EQ(buckets->find(8, true), 2);
  EXPECT_EQ(buckets->find(9, true), 3);
  EXPECT_EQ(buckets->find(13, true), -1);
  EXPECT_EQ(buckets->find(0, true), -1);
}

TEST(BucketsTest, WithoutPaddingOnlyExactSizesAreFound) {
  const std::vector<int32_t> given = {1, 4};
  const auto buckets = Buckets::create(given, 6);
  ASSERT_TRUE(buckets.ok());
  EXPECT_EQ(buckets->find(4, false), 1);
  EXPECT_EQ(buckets->find(6, false), 2);
  EXPECT_EQ(buckets->find(5, false), -1);
}

class DefaultBucketsTest : public testing::TestWithParam<int32_t> {};

TEST_P(DefaultBucketsTest, EveryLegalSizeHasABucket) {
  const int32_t maximum = GetParam();
  for (const auto& defaults : {default_decode_buckets(maximum), default_prefill_buckets(maximum)}) {
    EXPECT_EQ(defaults.back(), maximum);
    EXPECT_EQ(std::adjacent_find(defaults.begin(), defaults.end(), std::greater_equal<>()),
              defaults.end());
    const auto buckets = Buckets::create(defaults, maximum);
    ASSERT_TRUE(buckets.ok());
    EXPECT_EQ(buckets->sizes().size(), defaults.size());
    for (int32_t size = 1; size <= maximum; ++size) EXPECT_GE(buckets->find(size, true), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Maxima, DefaultBucketsTest,
                         testing::Values(1, 2, 3, 8, 12, 16, 17, 20, 33, 256, 300, 512, 1000));

TEST(DefaultBucketsTest, AreWhatTheCommentsSay) {
  EXPECT_THAT(default_decode_buckets(20), ElementsAre(1, 2, 4, 8, 16, 20));
  EXPECT_THAT(default_prefill_buckets(512), ElementsAre(16, 32, 64, 128, 256, 384, 512));
  EXPECT_THAT(default_prefill_buckets(10), ElementsAre(10));
}

}  // namespace
}  // namespace encore
