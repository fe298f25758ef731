#include "engine/page_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace encore {
namespace {

TEST(PagePoolTest, GivesOutEachPageOnce) {
  PagePool pool(5);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(5, pages).ok());
  EXPECT_EQ(std::set<int32_t>(pages.begin(), pages.end()), (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.high_water(), 5);
}

TEST(PagePoolTest, AllocatesAllOrNothing) {
  PagePool pool(3);
  std::vector<int32_t> pages;
  const Status status = pool.allocate(4, pages);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), testing::HasSubstr("3 of 3"));
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(PagePoolTest, FreedPageIsReused) {
  PagePool pool(3);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages).ok());
  ASSERT_TRUE(pool.release(pages[0]).ok());
  std::vector<int32_t> next;
  ASSERT_TRUE(pool.allocate(1, next).ok());
  EXPECT_EQ(next[0], pages[0]);
  EXPECT_EQ(pool.high_water(), 2);
}

TEST(PagePoolTest, SharedPageIsFreedByItsLastUser) {
  PagePool pool(1);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(1, pages).ok());
  ASSERT_TRUE(pool.retain(0).ok());
  EXPECT_EQ(pool.ref_count(0), 2);
  ASSERT_TRUE(pool.release(0).ok());
  EXPECT_EQ(pool.num_free(), 0);
  ASSERT_TRUE(pool.release(0).ok());
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(PagePoolTest, DoubleFreeIsAnError) {
  PagePool pool(2);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(1, pages).ok());
  ASSERT_TRUE(pool.release(pages[0]).ok());
  EXPECT_EQ(pool.release(pages[0]).code(), StatusCode::kInternal);
  EXPECT_EQ(pool.retain(pages[0]).code(), StatusCode::kInternal);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(PagePoolTest, PagesOutOfRangeAreRefused) {
  PagePool pool(2);
  EXPECT_EQ(pool.release(-1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.release(2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.retain(2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.keep(2).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.discard(-1).code(), StatusCode::kInvalidArgument);
}

TEST(PagePoolTest, KeptPageIsNeitherUsedNorFree) {
  PagePool pool(3);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages).ok());
  ASSERT_TRUE(pool.retain(pages[0]).ok());
  ASSERT_TRUE(pool.keep(pages[0]).ok());
  EXPECT_EQ(pool.num_kept(), 0) << "somebody still uses it";
  ASSERT_TRUE(pool.keep(pages[0]).ok());
  EXPECT_EQ(pool.num_kept(), 1);
  EXPECT_EQ(pool.num_used(), 1);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.ref_count(pages[0]), 0);
  EXPECT_EQ(pool.allocate(2, pages).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(pool.release(pages[0]).code(), StatusCode::kInternal);
  EXPECT_EQ(pool.keep(pages[0]).code(), StatusCode::kInternal);

  ASSERT_TRUE(pool.retain(pages[0]).ok());
  EXPECT_EQ(pool.ref_count(pages[0]), 1);
  EXPECT_EQ(pool.num_kept(), 0);
  EXPECT_EQ(pool.discard(pages[0]).code(), StatusCode::kInternal) << "it is used";
  ASSERT_TRUE(pool.keep(pages[0]).ok());
  ASSERT_TRUE(pool.discard(pages[0]).ok());
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_EQ(pool.retain(pages[0]).code(), StatusCode::kInternal) << "it is free";
}

TEST(PagePoolTest, HighWaterCountsKeptPagesTakenBack) {
  PagePool pool(3);
  std::vector<int32_t> pages;
  ASSERT_TRUE(pool.allocate(2, pages).ok());
  ASSERT_TRUE(pool.keep(pages[0]).ok());
  ASSERT_TRUE(pool.allocate(1, pages).ok());
  EXPECT_EQ(pool.high_water(), 2);
  ASSERT_TRUE(pool.retain(pages[0]).ok());
  EXPECT_EQ(pool.high_water(), 3);
}

}  // namespace
}  // namespace encore
