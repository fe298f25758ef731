// The forest of pages by itself: what is found, what is kept, what goes first.
#include "engine/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace encore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kNoPage = PrefixCache::kNoPage;

uint64_t hash_everything_alike(uint64_t, std::span<const int32_t>) { return 42; }

// Eight pages of two tokens.
class PrefixCacheTest : public testing::Test {
 protected:
  std::vector<int32_t> find(const std::vector<int32_t>& tokens, int32_t max_pages = 100) const {
    std::vector<int32_t> pages;
    cache_.find(tokens, max_pages, pages);
    return pages;
  }

  // What a request does: takes what is cached, computes and inserts the rest. Returns its pages.
  std::vector<int32_t> use(const std::vector<int32_t>& tokens, RequestId owner) {
    const auto num_pages = static_cast<int32_t>(tokens.size()) / 2;
    std::vector<int32_t> pages = find(tokens);
    for (const int32_t page : pages) cache_.retain(page);
    const auto found = static_cast<int32_t>(pages.size());
    EXPECT_TRUE(cache_.allocate(num_pages - found, pages).ok());
    for (int32_t i = found; i < num_pages; ++i) {
      const std::vector<int32_t> own = {tokens[2 * i], tokens[2 * i + 1]};
      EXPECT_EQ(cache_.insert(pages[i], i == 0 ? kNoPage : pages[i - 1], own, owner), pages[i]);
    }
    return pages;
  }

  void give_back(const std::vector<int32_t>& pages) {
    for (auto page = pages.rbegin(); page != pages.rend(); ++page) cache_.release(*page);
  }

  PagePool pool_{8};
  PrefixCache cache_{pool_, 2, true, 7};
};

TEST_F(PrefixCacheTest, FindsTheLongestChainOfWholePages) {
  const std::vector<int32_t> pages = use({1, 2, 3, 4, 5, 6}, 1);
  EXPECT_EQ(find({1, 2, 3, 4, 5, 6}), pages);
  EXPECT_THAT(find({1, 2, 3, 4, 9, 9}), ElementsAre(pages[0], pages[1]));
  EXPECT_THAT(find({1, 2, 3}), ElementsAre(pages[0]));
  EXPECT_THAT(find({1, 2, 3, 4, 5, 6}, 2), ElementsAre(pages[0], pages[1]));
  EXPECT_THAT(find({2, 1}), IsEmpty());
  EXPECT_THAT(find({1}), IsEmpty());
  EXPECT_THAT(find({}), IsEmpty());
}

// The same tokens after other ones are other keys and values.
TEST_F(PrefixCacheTest, APageStandsForAllTokensBeforeItToo) {
  use({1, 2, 3, 4}, 1);
  EXPECT_THAT(find({3, 4}), IsEmpty());
  EXPECT_THAT(find({5, 6, 3, 4}), IsEmpty());
  const std::vector<int32_t> other = use({5, 6, 3, 4}, 2);
  EXPECT_EQ(find({5, 6, 3, 4}), other);
}

TEST_F(PrefixCacheTest, PagesOutliveTheirUserAndComeBack) {
  const std::vector<int32_t> pages = use({1, 2, 3, 4}, 1);
  EXPECT_EQ(pool_.num_used(), 2);
  give_back(pages);
  EXPECT_EQ(pool_.num_used(), 0);
  EXPECT_EQ(pool_.num_kept(), 2);
  EXPECT_EQ(pool_.num_free(), 6);
  EXPECT_EQ(cache_.num_available(), 8);
  EXPECT_EQ(use({1, 2, 3, 4, 5, 6}, 2), (std::vector<int32_t>{pages[0], pages[1], 2}));
  EXPECT_EQ(pool_.num_used(), 3);
  EXPECT_EQ(pool_.num_kept(), 0);
  EXPECT_EQ(pool_.ref_count(pages[0]), 1);
}

TEST_F(PrefixCacheTest, SharedPagesAreKeptAfterTheLastUser) {
  const std::vector<int32_t> first = use({1, 2, 3, 4}, 1);
  const std::vector<int32_t> second = use({1, 2, 3, 4}, 2);
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool_.ref_count(first[1]), 2);
  give_back(first);
  EXPECT_EQ(pool_.num_kept(), 0);
  give_back(second);
  EXPECT_EQ(pool_.num_kept(), 2);
}

TEST_F(PrefixCacheTest, FreePagesGoBeforeKeptOnes) {
  give_back(use({1, 2, 3, 4}, 1));
  std::vector<int32_t> taken;
  ASSERT_TRUE(cache_.allocate(6, taken).ok());
  EXPECT_EQ(cache_.num_evictions(), 0);
  EXPECT_EQ(find({1, 2, 3, 4}).size(), 2U);
}

// 1-2-3 and 1-2-4: the leaf used longest ago goes first, a parent only after its children.
TEST_F(PrefixCacheTest, LeastRecentlyUsedLeavesGoFirst) {
  const std::vector<int32_t> a = use({1, 1, 2, 2, 3, 3}, 1);
  const std::vector<int32_t> b = use({1, 1, 2, 2, 4, 4}, 2);
  const std::vector<int32_t> c = use({9, 9}, 3);
  give_back(b);  // leaves only its own leaf without a user
  give_back(c);
  give_back(a);
  EXPECT_EQ(pool_.num_kept(), 5);
  give_back(use({1, 1, 2, 2, 4, 4}, 4));  // b's leaf is now the newest leaf
  std::vector<int32_t> taken;
  ASSERT_TRUE(cache_.allocate(3, taken).ok());
  std::vector<int32_t> evicted;
  for (int32_t i = 0; i < 5; ++i) {
    taken.clear();
    ASSERT_TRUE(cache_.allocate(1, taken).ok());
    evicted.push_back(taken[0]);
  }
  EXPECT_THAT(evicted, ElementsAre(c[0], a[2], b[2], a[1], a[0]));
  EXPECT_EQ(cache_.num_evictions(), 5);
  EXPECT_THAT(find({1, 1}), IsEmpty());
}

TEST_F(PrefixCacheTest, AllocatesAllOrNothing) {
  give_back(use({1, 2, 3, 4}, 1));
  const std::vector<int32_t> used = use({5, 6}, 2);
  std::vector<int32_t> pages;
  EXPECT_EQ(cache_.allocate(8, pages).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(pages, IsEmpty());
  EXPECT_EQ(find({1, 2, 3, 4}).size(), 2U) << "evicted for nothing";
  EXPECT_TRUE(cache_.allocate(7, pages).ok());
  EXPECT_EQ(std::set<int32_t>(pages.begin(), pages.end()).size(), 7U);
  EXPECT_EQ(std::count(pages.begin(), pages.end(), used[0]), 0);
}

TEST_F(PrefixCacheTest, EqualContentIsCachedOnce) {
  const std::vector<int32_t> first = use({1, 2}, 1);
  std::vector<int32_t> own;
  ASSERT_TRUE(cache_.allocate(1, own).ok());
  EXPECT_EQ(cache_.insert(own[0], kNoPage, std::vector<int32_t>{1, 2}, 2), first[0]);
  EXPECT_FALSE(cache_.contains(own[0]));
  cache_.release(own[0]);
  EXPECT_EQ(pool_.num_free(), 7) << "a page outside the cache is free at once";
}

// Every page in one bucket with one hash: only tokens and parents tell them apart.
TEST_F(PrefixCacheTest, CollidingHashesNeverGiveWrongPages) {
  PagePool pool(8);
  PrefixCache cache(pool, 2, true, 7, &hash_everything_alike);
  std::vector<int32_t> pages;
  ASSERT_TRUE(cache.allocate(5, pages).ok());
  const std::vector<int32_t> x = {1, 2};
  const std::vector<int32_t> y = {3, 4};
  EXPECT_EQ(cache.insert(pages[0], kNoPage, x, 1), pages[0]);
  EXPECT_EQ(cache.insert(pages[1], kNoPage, y, 1), pages[1]);
  EXPECT_EQ(cache.insert(pages[2], pages[0], y, 1), pages[2]);
  EXPECT_EQ(cache.insert(pages[3], pages[1], y, 1), pages[3]);
  const auto found = [&](const std::vector<int32_t>& tokens) {
    std::vector<int32_t> result;
    cache.find(tokens, 9, result);
    return result;
  };
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(pages[0], pages[2]));
  EXPECT_THAT(found({3, 4, 3, 4}), ElementsAre(pages[1], pages[3]));
  EXPECT_THAT(found({2, 1}), IsEmpty());
  EXPECT_THAT(found({1, 2, 1, 2}), ElementsAre(pages[0]));
  cache.release(pages[3]);  // the middle of the bucket's chain goes, the rest stays
  cache.release(pages[1]);
  std::vector<int32_t> taken;
  ASSERT_TRUE(cache.allocate(5, taken).ok());
  EXPECT_THAT(found({3, 4}), IsEmpty());
  EXPECT_THAT(found({1, 2, 3, 4}), ElementsAre(pages[0], pages[2]));
}

TEST_F(PrefixCacheTest, ForgettingTakesWhatFollowsToo) {
  const std::vector<int32_t> a = use({1, 1}, 1);
  const std::vector<int32_t> b = use({1, 1, 2, 2}, 2);        // shares a's page, adds one
  const std::vector<int32_t> c = use({1, 1, 2, 2, 3, 3}, 3);  // shares both, adds one
  const std::vector<int32_t> d = use({1, 1, 5, 5}, 4);
  give_back(c);
  cache_.forget(2);
  EXPECT_THAT(find({1, 1, 2, 2, 3, 3}), ElementsAre(a[0])) << "not b's own: it was only shared";
  EXPECT_THAT(find({1, 1, 5, 5}), ElementsAre(a[0], d[1]));
  EXPECT_EQ(pool_.num_kept(), 0) << "c's page followed b's: free at once";
  EXPECT_EQ(pool_.num_free(), 5);
  EXPECT_EQ(pool_.ref_count(b[1]), 1) << "b goes on using its page";
  give_back(b);
  EXPECT_EQ(pool_.num_free(), 6);
  give_back(a);
  give_back(d);
  EXPECT_EQ(pool_.num_kept(), 2);
  EXPECT_EQ(pool_.num_used(), 0);
}

TEST_F(PrefixCacheTest, WithoutTheCachePagesAreFreeAtOnce) {
  PagePool pool(4);
  PrefixCache cache(pool, 2, false);
  std::vector<int32_t> pages;
  ASSERT_TRUE(cache.allocate(2, pages).ok());
  std::vector<int32_t> found;
  cache.find(std::vector<int32_t>{1, 2}, 1, found);
  EXPECT_THAT(found, IsEmpty());
  for (const int32_t page : pages) cache.release(page);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(cache.num_available(), 4);
}

TEST(PrefixHashTest, DependsOnParentTokensOrderAndSeed) {
  const auto hash = [](uint64_t parent, std::vector<int32_t> tokens) {
    return PrefixCache::hash_page(parent, tokens);
  };
  std::set<uint64_t> hashes;
  int32_t made = 0;
  for (int32_t first = 0; first < 4; ++first) {
    const uint64_t parent = hash(7, {first, first, first});
    for (int32_t a = 0; a < 32; ++a) {
      for (int32_t b = 0; b < 32; ++b) {
        hashes.insert(hash(parent, {a, b, 7}));
        ++made;
      }
    }
  }
  EXPECT_EQ(std::ssize(hashes), made);
  EXPECT_NE(hash(1, {1, 2}), hash(1, {2, 1}));
  EXPECT_NE(hash(1, {1, 2}), hash(2, {1, 2}));
  EXPECT_EQ(hash(5, {1, 2}), hash(5, {1, 2}));
  EXPECT_NE(PrefixCache::random_seed(), PrefixCache::random_seed());
}

}  // namespace
}  // namespace encore
