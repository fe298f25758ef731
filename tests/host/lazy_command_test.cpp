// `capture.lazy` through the whole program, on the CPU and a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class LazyCommandTest : public ::testing::TestWithParam<const char*> {
 protected:
  static CommandResult run(const std::string& lazy, std::vector<std::string> more = {}) {
    const std::string file = write_temporary(
        "lazy.yaml", "model: {path: " ENCORE_TEST_GOLDEN_MODELS
                     "/tiny_qwen3}\n"
                     "scheduler: {max_context: 128, max_running_requests: 4, "
                     "max_tokens_per_step: 64}\n"
                     "sampling: {temperature: 0, max_tokens: 60, ignore_eos: true}\n"
                     "capture: {prefill: " +
                         std::string(GetParam()) + ", lazy: " + lazy + "}\n");
    std::vector<std::string> arguments = {"run", file, "--prompt", "a b c", "--prompt", "d e"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_encore(arguments);
  }
};

TEST_P(LazyCommandTest, TokensAreTheSameAndHotBucketsReplayInTheEnd) {
  const CommandResult later = run("true", {"-q", "--json"});
  ASSERT_EQ(later.exit_code, 0) << later.err;
  const Json lazy = Json::parse(later.out, nullptr, false);
  const Json at_once = Json::parse(run("false", {"-q", "--json"}).out, nullptr, false);
  ASSERT_FALSE(lazy.is_discarded() || at_once.is_discarded());
  for (const int i : {0, 1}) {
    EXPECT_EQ(lazy["requests"][i]["tokens"].size(), 60U);
    EXPECT_EQ(lazy["requests"][i]["tokens"], at_once["requests"][i]["tokens"]);
  }
  const int fallbacks = lazy["graphs"]["fallbacks_by_reason"].value("not_captured", 0);
  EXPECT_GE(fallbacks, 1);
  EXPECT_LE(fallbacks, 6);
  // Once captured, a step replays, unless timing finds it slower than eager: a loaded machine may.
  const int replays = lazy["graphs"]["replays"].get<int>();
  EXPECT_GE(replays, 1);
  EXPECT_GT(replays + lazy["graphs"]["fallbacks_by_reason"].value("slower", 0), 40);
  for (const Json& bucket : lazy["capture"]["decode_buckets"]) {
    EXPECT_EQ(bucket["reason"], "none") << bucket.dump();
    EXPECT_GT(bucket["nodes"].get<int>(), 0) << bucket.dump();
  }
  EXPECT_EQ(lazy["memory"]["executable_bytes"], at_once["memory"]["executable_bytes"]);
}

TEST_P(LazyCommandTest, LogTellsWhatIsCapturedWhen) {
  const CommandResult result = run("true");
  EXPECT_THAT(result.err, HasSubstr("to be captured between steps"));
  EXPECT_THAT(result.err, HasSubstr("says not_captured"));
  EXPECT_THAT(result.err, HasSubstr("decode_graph bucket 2 captured between steps"));
}

INSTANTIATE_TEST_SUITE_P(Modes, LazyCommandTest, ::testing::Values("full", "breakable"));

TEST(LazyConfigTest, ContradictsRequireGraph) {
  const std::string file =
      write_temporary("contradiction.yaml", "model: {path: " ENCORE_TEST_GOLDEN_MODELS
                                            "/tiny_qwen3}\n"
                                            "capture: {lazy: true, require_graph: true}\n");
  const CommandResult result = run_encore({"run", file, "--prompt", "a"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("contradiction.yaml:2: capture.lazy"));
}

}  // namespace
}  // namespace encore
