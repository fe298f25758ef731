// Fault G4: the list of buckets is wrong at its edges.
#include <gtest/gtest.h>

#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

// `batch` requests of 9 cached tokens, one new token each.
RunnerCheck check_decode(const Runners& runners, const TestModel& model, int32_t batch) {
  StepDriver driver(model.spec(), *runners.kv);
  std::vector<Sequence> sequences;
  std::vector<Work> work;
  for (int32_t i = 0; i < batch; ++i) {
    sequences.push_back(driver.start(random_tokens(1, 10, model.spec().vocab_size)));
    sequences.back().cached = 9;
  }
  work.reserve(sequences.size());
  for (Sequence& sequence : sequences) work.push_back({&sequence, 1});
  const OwnedBatch owned = driver.batch_of(work);
  return runners.graphs.decode.runner->check(owned.view(), StepOutput{});
}

class BucketEdges : public ::testing::TestWithParam<int32_t> {
 protected:
  RunnersOptions options(bool padding) const {
    RunnersOptions options = small_options();
    options.num_pages = 64;
    options.graphs.capture.limits.max_requests = GetParam();
    options.graphs.capture.decode_buckets.clear();
    options.graphs.capture.padding = padding;
    return options;
  }
  TestModel& model_ = test_model(goldens_folder() + "/models/tiny_llama");
};

TEST_P(BucketEdges, WithPaddingEveryLegalBatchReplays) {
  const Runners runners = make_runners(model_, options(true));
  for (int32_t batch = 1; batch <= GetParam(); ++batch) {
    const RunnerCheck check = check_decode(runners, model_, batch);
    EXPECT_EQ(check.reason, Reason::kNone) << "batch " << batch;
    EXPECT_GE(check.bucket, batch);
    EXPECT_LE(check.bucket, GetParam());
  }
}

TEST_P(BucketEdges, WithoutPaddingExactSizesReplayAndOthersSayWhy) {
  const Runners runners = make_runners(model_, options(false));
  std::vector<int32_t> captured;
  for (const BucketReport& bucket : runners.graphs.decode.buckets) {
    captured.push_back(bucket.bucket);
  }
  for (int32_t batch = 1; batch <= GetParam(); ++batch) {
    const RunnerCheck check = check_decode(runners, model_, batch);
    const bool exact = std::find(captured.begin(), captured.end(), batch) != captured.end();
    EXPECT_EQ(check.reason, exact ? Reason::kNone : Reason::kNoExactBucket) << "batch " << batch;
    EXPECT_EQ(check.bucket, exact ? batch : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(MaximumBatch, BucketEdges, ::testing::Values(1, 2, 3, 8, 12, 20, 33));

// The last token of the context sits in a page that the prompt did not need.
TEST(BucketEdge, DecodeAtTheEndOfTheContextReplays) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  RunnersOptions options = small_options();
  options.graphs.capture.limits.max_context = 33;
  const Runners runners = make_runners(model, options);
  StepDriver driver(model.spec(), *runners.kv);
  const auto prompt = random_tokens(8, 32, model.spec().vocab_size);
  Sequence graph = driver.start(prompt);
  driver.run_and_append(*runners.graphs.prefill.runner, {{&graph, 32}});
  EXPECT_EQ(graph.pages.size(), 2U);
  const StepResult replayed = driver.run(*runners.graphs.decode.runner, {{&graph, 1}});
  EXPECT_EQ(graph.pages.size(), 3U);
  Sequence eager = driver.start(prompt);
  driver.run_and_append(*runners.graphs.eager.runner, {{&eager, 32}});
  const StepResult issued = driver.run(*runners.graphs.eager.runner, {{&eager, 1}});
  expect_same_logits(replayed.logits[0], issued.logits[0]);
}

TEST(BucketEdge, WhatDoesNotFitIsRefusedWithItsReason) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners runners = make_runners(model, small_options());
  StepDriver driver(model.spec(), *runners.kv);
  const auto check = [&](Runner& runner, const std::vector<Work>& work) {
    const OwnedBatch owned = driver.batch_of(work);
    return runner.check(owned.view(), StepOutput{}).reason;
  };
  Sequence longer = driver.start(random_tokens(1, 300, model.spec().vocab_size));
  EXPECT_EQ(check(*runners.graphs.prefill.runner, {{&longer, 129}}), Reason::kTooManyTokens);
  EXPECT_EQ(check(*runners.graphs.eager.runner, {{&longer, 129}}), Reason::kTooManyTokens);
  EXPECT_EQ(check(*runners.graphs.decode.runner, {{&longer, 2}}), Reason::kNotDecode);
  longer.cached = 256;
  EXPECT_EQ(check(*runners.graphs.decode.runner, {{&longer, 1}}), Reason::kContextTooLong);
  std::vector<Sequence> nine(9, driver.start({1}));
  std::vector<Work> work;
  work.reserve(nine.size());
  for (Sequence& sequence : nine) work.push_back({&sequence, 1});
  EXPECT_EQ(check(*runners.graphs.eager.runner, work), Reason::kTooManyRequests);
}

}  // namespace
}  // namespace encore::testing
