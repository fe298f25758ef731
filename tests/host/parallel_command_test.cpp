// Two ranks on the CPU, and what becomes of a run that loses one (fault G5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;

std::string two_ranks(const std::string& model) {
  return write_temporary(model + ".yaml", "model: {path: " ENCORE_TEST_GOLDEN_MODELS "/" + model +
                                              "}\nparallel: {tensor: 2}\n"
                                              "sampling: {temperature: 0, max_tokens: 12}\n");
}

TEST(ParallelCommandTest, TwoRanksGiveOneRanksText) {
  const std::string config = two_ranks("tiny_llama_tied_llama3");
  const CommandResult two = run_encore({"run", config, "-q", "--prompt", "The sea"});
  const CommandResult one =
      run_encore({"run", config, "-q", "--prompt", "The sea", "--set", "parallel.tensor=1"});
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(two.out, one.out);
}

TEST(ParallelCommandTest, AnImpossibleDivisionIsAUsageError) {
  const CommandResult result = run_encore(
      {"run", two_ranks("tiny_llama"), "-q", "--prompt", "x", "--set", "parallel.tensor=3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("num_heads is 4"));
}

class LostRank : public ::testing::TestWithParam<const char*> {};

TEST_P(LostRank, EndsTheProcessAndIsNamed) {
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result =
      run_encore({"run", two_ranks("tiny_llama"), "-q", "--prompt", "The sea"}, "",
                 {std::string("ENCORE_RANK_FAULT=1:5:") + GetParam()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("rank 1"));
  EXPECT_THAT(result.err, HasSubstr("step 5"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

INSTANTIATE_TEST_SUITE_P(Faults, LostRank, ::testing::Values("hang", "fail"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace encore
