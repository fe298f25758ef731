#include "kv_sizing.h"

#include <gtest/gtest.h>

#include "memory_ledger.h"

namespace encore {
namespace {

// 1000 bytes, 300 of them used; runners will take 100 and 50; a page takes 10.
KvBudget budget() {
  KvBudget budget;
  budget.memory = {.total_bytes = 1000, .free_bytes = 700};
  budget.fraction = 0.75;
  budget.plan = {
      .kv_page_bytes = 10, .kv_fixed_bytes = 20, .runner_bytes = 100, .executable_bytes = 50};
  budget.least_pages = 4;
  budget.most_pages = 100;
  return budget;
}

TEST(KvSizingTest, GetsWhatIsLeftOfTheFraction) {
  // 750 - 300 - 100 - 50 - 20 = 280.
  EXPECT_EQ(size_kv(budget()).pages, 28);
}

TEST(KvSizingTest, IsNoLargerThanAllRequestsCanUse) {
  KvBudget small = budget();
  small.most_pages = 12;
  EXPECT_EQ(size_kv(small).pages, 12);
}

TEST(KvSizingTest, SaysWhichFractionWouldDo) {
  KvBudget tight = budget();
  tight.fraction = 0.49;
  const KvSize size = size_kv(tight);
  EXPECT_EQ(size.pages, 2);
  // 300 + 100 + 50 + 20 + 4 * 10 = 510.
  EXPECT_DOUBLE_EQ(size.needed_fraction, 0.51);
  tight.fraction = 0.1;
  EXPECT_EQ(size_kv(tight).pages, 0);
}

TEST(MemoryLedgerTest, DifferenceIsAShareOfWhatTheDeviceSays) {
  MemoryLedger ledger;
  ledger.weights = 60;
  ledger.kv = 20;
  ledger.context = 18;
  EXPECT_EQ(ledger.difference_percent(), 0.0);
  ledger.measured = true;
  ledger.used = 100;
  EXPECT_DOUBLE_EQ(ledger.difference_percent(), -2.0);
}

}  // namespace
}  // namespace encore
