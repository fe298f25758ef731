// Budgets from 0.80 to 0.99 of a device's memory while another process holds most of it: ready,
// with an account of what was taken; or refused, with a budget that would do. Nothing in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "command_on_standin.h"

namespace encore {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kMemory = int64_t{1} << 30;  // of which the BLAS workspace takes 6 %
constexpr double kWorstDifference = 2.0;       // percent between the ledger and the device

class MemoryBudgetsTest : public ::testing::Test {
 protected:
  // Captures, replays a step of each graph, and accounts for memory.
  CommandResult start(const std::string& budget, int32_t num_ranks = 1) const {
    return run_on_standin(
        {"graphs", config_, "--json", "--set", "kv_cache.memory_fraction=" + budget, "--set",
         "parallel.tensor=" + std::to_string(num_ranks)},
        {"ENCORE_STANDIN_MEMORY=" + std::to_string(kMemory),
         "ENCORE_STANDIN_OTHERS=" + std::to_string(others_),
         "ENCORE_STANDIN_DEVICES=" + std::to_string(num_ranks)});
  }
  static void expect_account(const CommandResult& ready) {
    const Json memory = Json::parse(ready.out)["memory"];
    const auto sum = memory["sum_bytes"].get<double>();
    const auto used = memory["device_used_bytes"].get<double>();
    EXPECT_GT(memory["executable_bytes"], 0);
    EXPECT_LE(100.0 * std::abs(sum - used) / used, kWorstDifference) << memory.dump(2);
  }

  std::string config_ = small_config("rocm");
  int64_t others_ = 0;
};

TEST_F(MemoryBudgetsTest, EachIsReadyOrRefusedWithABudgetThatIs) {
  others_ = kMemory * 80 / 100;
  int32_t num_ready = 0;
  int32_t num_refused = 0;
  for (int32_t hundredths = 80; hundredths < 100; ++hundredths) {
    const std::string budget = "0." + std::to_string(hundredths);
    SCOPED_TRACE(budget);
    const CommandResult result = start(budget);
    if (result.exit_code == 0) {
      ++num_ready;
      expect_account(result);
      continue;
    }
    ++num_refused;
    ASSERT_EQ(result.exit_code, 2) << result.err;
    const std::string words = "raise kv_cache.memory_fraction to ";
    ASSERT_THAT(result.err, HasSubstr(words));
    const CommandResult second = start(result.err.substr(result.err.find(words) + words.size(), 5));
    EXPECT_EQ(second.exit_code, 0) << second.err;
  }
  EXPECT_GT(num_ready, 5);
  EXPECT_GT(num_refused, 5);
}

TEST_F(MemoryBudgetsTest, AllRanksDevicesAreAccountedFor) {
  others_ = kMemory * 80 / 100;
  const CommandResult result = start("0.95", 2);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_account(result);
}

TEST_F(MemoryBudgetsTest, WhereNoBudgetWouldDoItSaysWhatHadNoRoom) {
  others_ = kMemory - 4096;
  const CommandResult result = start("0.99");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no room on the device for "));
  EXPECT_THAT(result.err, HasSubstr(" 4096 of 1073741824 bytes are free"));
}

}  // namespace
}  // namespace encore
