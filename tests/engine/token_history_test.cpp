#include "engine/token_history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace encore {
namespace {

TEST(TokenHistoryTest, CountsLikeAMap) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int32_t> token(0, 150000);
  std::vector<int32_t> prompt(300);
  for (int32_t& id : prompt) id = token(random) % 97 * 1024;  // many share their low bits
  TokenHistory history;
  history.reset(prompt, 500);
  std::map<int32_t, std::pair<int32_t, int32_t>> expected;
  for (const int32_t id : prompt) ++expected[id].first;
  for (int32_t i = 0; i < 500; ++i) {
    const int32_t id = i % 3 == 0 ? prompt[i % 300] : token(random);
    history.add_output(id);
    ++expected[id].second;
  }
  ASSERT_EQ(history.entries().size(), expected.size());
  for (const TokenCount& entry : history.entries()) {
    EXPECT_EQ(expected.at(entry.token), std::pair(entry.in_prompt, entry.in_output));
  }
}

TEST(TokenHistoryTest, ResetForgets) {
  TokenHistory history;
  const std::vector<int32_t> prompt = {5, 5, 6};
  history.reset(prompt, 2);
  history.reset({}, 2);
  EXPECT_TRUE(history.entries().empty());
  history.add_output(5);
  ASSERT_EQ(history.entries().size(), 1U);
  EXPECT_EQ(history.entries()[0].in_prompt, 0);
  EXPECT_EQ(history.entries()[0].in_output, 1);
}

}  // namespace
}  // namespace encore
