// Threads that serve, load and capture on one device at the same time: results as when alone.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda_test_support.h"

namespace encore::cuda::testing {
namespace {

constexpr int32_t kPromptTokens = 24;
constexpr int32_t kDecodeSteps = 4;

// Loading again times kernels again, here beside other work, and kernels round bf16 differently.
constexpr double kLogitError = 0.03;

using Logits = std::vector<std::vector<float>>;

// A request with fixed tokens, so that each step's input is known whatever was sampled.
Logits run_by_graphs(const TestModel& model, const Runners& runners, uint64_t seed) {
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence = driver.start(
      encore::testing::random_tokens(seed, kPromptTokens + kDecodeSteps, model.spec().vocab_size));
  Logits logits = driver.run(*runners.graphs.prefill.runner, {{&sequence, kPromptTokens}}).logits;
  for (int32_t step = 0; step < kDecodeSteps; ++step) {
    logits.push_back(driver.run(*runners.graphs.decode.runner, {{&sequence, 1}}).logits.at(0));
  }
  return logits;
}

void expect_close(const Logits& found, const Logits& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(logit_error(found[i], expected[i]), kLogitError) << "step " << i;
  }
}

using ConcurrencyTest = CudaTest;

TEST_F(ConcurrencyTest, ReplaysGoOnWhileAnotherModelIsLoadedAndCaptured) {
  constexpr int32_t kRounds = 4;
  const auto backend = make_backend();
  Logits alone;
  {
    TestModel other = load(*backend, "tiny_qwen3");
    alone = run_by_graphs(other, encore::testing::make_runners(other, small_runners()), 21);
  }
  TestModel model = load(*backend, "tiny_llama");
  const Runners runners = encore::testing::make_runners(model, small_runners());
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence =
      driver.start(encore::testing::random_tokens(20, kPromptTokens + 1, model.spec().vocab_size));
  driver.run(*runners.graphs.prefill.runner, {{&sequence, kPromptTokens}});
  const Logits first = driver.run(*runners.graphs.decode.runner, {{&sequence, 1}}).logits;

  std::atomic<bool> done = false;
  const std::jthread loader([&] {
    for (int32_t round = 0; round < kRounds; ++round) {
      TestModel other = load(*backend, "tiny_qwen3");
      const Runners made = encore::testing::make_runners(other, small_runners());
      for (const BucketReport& bucket : made.graphs.decode.buckets) {
        EXPECT_EQ(bucket.reason, Reason::kNone) << bucket.message;
      }
      for (const BucketReport& bucket : made.graphs.prefill.report.buckets) {
        EXPECT_EQ(bucket.reason, Reason::kNone) << bucket.message;
      }
      expect_close(run_by_graphs(other, made, 21), alone);
    }
    done = true;
  });
  int64_t replays = 0;
  for (; !done; ++replays) {
    sequence.cached = kPromptTokens;
    const Logits step = driver.run(*runners.graphs.decode.runner, {{&sequence, 1}}).logits;
    ASSERT_EQ(step, first) << "replay " << replays;
  }
  EXPECT_GT(replays, 10 * kRounds);
}

TEST_F(ConcurrencyTest, TwoModelsAreCapturedAndServedAtTheSameTime) {
  constexpr int32_t kRounds = 4;
  const auto backend = make_backend();
  const auto serve = [](TestModel& model, const Logits& alone, uint64_t seed) {
    for (int32_t round = 0; round < kRounds; ++round) {
      const Runners runners = encore::testing::make_runners(model, small_runners());
      for (int32_t request = 0; request < 20; ++request) {
        ASSERT_EQ(run_by_graphs(model, runners, seed), alone) << "round " << round;
      }
    }
  };
  TestModel llama = load(*backend, "tiny_llama");
  TestModel qwen = load(*backend, "tiny_qwen3");
  const Logits llama_alone =
      run_by_graphs(llama, encore::testing::make_runners(llama, small_runners()), 31);
  const Logits qwen_alone =
      run_by_graphs(qwen, encore::testing::make_runners(qwen, small_runners()), 32);
  const std::jthread first([&] { serve(llama, llama_alone, 31); });
  const std::jthread second([&] { serve(qwen, qwen_alone, 32); });
}

}  // namespace
}  // namespace encore::cuda::testing
