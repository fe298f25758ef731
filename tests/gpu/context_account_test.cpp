// What contexts take is told apart from what other processes take; needs no GPU.
#include "context_account.h"

#include <gtest/gtest.h>

namespace encore::gpu {
namespace {

constexpr int64_t kOthers = 120'000'000'000;
constexpr int64_t kContext = 500'000'000;

// Devices on each of which another process holds memory.
class ContextAccountTest : public testing::Test {
 protected:
  Status select(int32_t device) {
    return account_.make_once(
        device, [this, device] { return use(device); }, [this, device] { return make(device); });
  }
  std::optional<int64_t> use(int32_t device) const {
    if (!told_) return std::nullopt;
    return kOthers + (made_.contains(device) ? kContext : 0);
  }
  Status make(int32_t device) {
    ++num_calls_;
    if (fails_) return out_of_memory("no room for a context");
    made_.insert(device);
    return {};
  }

  ContextAccount account_;
  std::set<int32_t> made_;
  int32_t num_calls_ = 0;
  bool told_ = true;
  bool fails_ = false;
};

TEST_F(ContextAccountTest, OthersMemoryIsNoContext) {
  EXPECT_TRUE(select(0).ok());
  EXPECT_EQ(account_.bytes(), kContext);
}

TEST_F(ContextAccountTest, EachDevicesContextIsMadeOnce) {
  for (const int32_t device : {0, 1, 0, 1}) EXPECT_TRUE(select(device).ok());
  EXPECT_EQ(num_calls_, 2);
  EXPECT_EQ(account_.bytes(), 2 * kContext);
}

TEST_F(ContextAccountTest, WhatNobodyTellsIsNotCounted) {
  told_ = false;
  EXPECT_TRUE(select(0).ok());
  EXPECT_EQ(account_.bytes(), 0);
  EXPECT_EQ(num_calls_, 1);
}

TEST_F(ContextAccountTest, AContextThatFailedIsMadeAgain) {
  fails_ = true;
  EXPECT_EQ(select(0).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(account_.bytes(), 0);
  fails_ = false;
  EXPECT_TRUE(select(0).ok());
  EXPECT_EQ(account_.bytes(), kContext);
}

}  // namespace
}  // namespace encore::gpu
