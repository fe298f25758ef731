// The steps that `encore bench` makes, seen by a runner that only looks.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bench_measure.h"
#include "run_command.h"

namespace encore {
namespace {

// Checks each batch against the rules of ForwardBatch and remembers its sizes.
class WatchingRunner : public Runner {
 public:
  struct Seen {
    int32_t num_tokens = 0;
    int32_t num_requests = 0;
    int32_t num_logit_rows = 0;
    int32_t longest = 0;
  };

  RunnerKind kind() const override { return RunnerKind::kEager; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput&) const override {
    return {batch.num_requests() > 3 ? Reason::kTooManyRequests : Reason::kNone, 0};
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    EXPECT_EQ(batch.q_start.back(), batch.num_tokens());
    EXPECT_EQ(batch.positions.size(), batch.token_ids.size());
    EXPECT_EQ(batch.sampling.size(), batch.logit_rows.size());
    EXPECT_EQ(output.tokens.size(), batch.logit_rows.size());
    for (int32_t i = 0; i < batch.num_requests(); ++i) {
      EXPECT_EQ(batch.positions[batch.q_start[i + 1] - 1], batch.kv_len[i] - 1);
      EXPECT_EQ(batch.page_start[i + 1] - batch.page_start[i], (batch.kv_len[i] + 3) / 4);
    }
    for (const int32_t id : batch.token_ids) EXPECT_TRUE(id >= 0 && id < 50);
    seen.push_back({batch.num_tokens(), batch.num_requests(), batch.num_logit_rows(),
                    *std::max_element(batch.kv_len.begin(), batch.kv_len.end())});
    return seen.size();
  }
  Status wait(Ticket, int64_t) override { return {}; }

  std::vector<Seen> seen;
};

BenchStepper stepper() { return BenchStepper({4, 10, 16, 50}); }

TEST(BenchStepperTest, PromptsAreCutIntoFullSteps) {
  WatchingRunner runner;
  const Result<BenchSample> sample = stepper().prompts(runner, 2, 20);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->steps, 3);
  ASSERT_EQ(runner.seen.size(), 3U);
  EXPECT_EQ(runner.seen[0].num_tokens, 16);
  EXPECT_EQ(runner.seen[0].num_logit_rows, 0);
  EXPECT_EQ(runner.seen[1].num_tokens, 16);  // 4 of the first prompt, 12 of the second
  EXPECT_EQ(runner.seen[1].num_requests, 2);
  EXPECT_EQ(runner.seen[1].num_logit_rows, 1);
  EXPECT_EQ(runner.seen[2].num_tokens, 8);
  EXPECT_EQ(runner.seen[2].num_logit_rows, 1);
}

TEST(BenchStepperTest, GenerationAddsOneTokenToEachRequestAStep) {
  WatchingRunner runner;
  const Result<BenchSample> sample = stepper().generation(runner, 3, 5, 4);
  ASSERT_TRUE(sample.ok());
  ASSERT_EQ(runner.seen.size(), 4U);
  EXPECT_EQ(runner.seen[0].longest, 6);
  EXPECT_EQ(runner.seen[3].longest, 9);
  EXPECT_EQ(runner.seen[3].num_tokens, 3);
  EXPECT_EQ(runner.seen[3].num_logit_rows, 3);
}

TEST(BenchStepperTest, RunnerThatCannotRunTheBatchSaysWhy) {
  WatchingRunner runner;
  const Result<BenchSample> sample = stepper().generation(runner, 4, 0, 4);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->reason, Reason::kTooManyRequests);
  EXPECT_TRUE(runner.seen.empty());
}

TEST(BenchCommandTest, EachModeBatchAndDepthHasItsRatesBesideTheLimits) {
  const std::string config =
      write_temporary("bench.yaml", "model: {path: " ENCORE_TEST_GOLDEN_MODELS "/tiny_llama}\n");
  const CommandResult result =
      run_encore({"bench", config, "-q", "-m", "eager,prefill_breakable,decode_graph", "-p", "16",
                  "-g", "4", "-b", "1,2", "-d", "0,32", "-r", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << result.out;
  EXPECT_GT(json["limits"]["read_bytes_per_s"].get<double>(), 0.0);
  EXPECT_GT(json["limits"]["matmul_ops_per_s"].get<double>(), 0.0);
  std::set<std::string> tests;
  for (const auto& row : json["results"]) {
    EXPECT_FALSE(row.contains("skipped")) << row.dump();
    for (const char* rate : {"bytes_per_s", "ops_per_s", "share_of_peak"}) {
      EXPECT_GT(row[rate].get<double>(), 0.0) << row.dump();
    }
    tests.insert(row["runner"].get<std::string>() + " " + std::to_string(row["batch"].get<int>()) +
                 " " + row["test"].get<std::string>());
  }
  const std::set<std::string> expected = {"eager 1 prompt 16",
                                          "eager 2 prompt 16",
                                          "eager 1 generate 4",
                                          "eager 2 generate 4",
                                          "eager 1 generate 4 after 32",
                                          "eager 2 generate 4 after 32",
                                          "prefill_breakable 1 prompt 16",
                                          "prefill_breakable 2 prompt 16",
                                          "decode_graph 1 generate 4",
                                          "decode_graph 2 generate 4",
                                          "decode_graph 1 generate 4 after 32",
                                          "decode_graph 2 generate 4 after 32"};
  EXPECT_EQ(tests, expected);
}

}  // namespace
}  // namespace encore
