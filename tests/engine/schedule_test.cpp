// Steps: chunked prefill, mixed steps, budgets and buckets (G3, G4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Rig;
using fake::RigOptions;

RequestOptions request(int32_t prompt_size, int32_t salt, int32_t max_tokens) {
  RequestOptions options;
  options.prompt = fake::make_prompt(prompt_size, salt);
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

// Adds all, runs, and compares each with what it must be alone.
void expect_exact(Rig& rig, const std::vector<RequestOptions>& requests) {
  std::vector<RequestId> ids;
  ids.reserve(requests.size());
  for (const RequestOptions& options : requests) ids.push_back(rig.add(options));
  rig.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(rig.replies[ids[i]].tokens,
              fake::expected_tokens(requests[i], requests[i].max_tokens));
  }
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
}

// G3 (b)
TEST(ScheduleTest, BucketBeyondTheContextTakesSeveralPromptsAtOnce) {
  RigOptions options;
  options.limits.max_context = 64;
  options.limits.max_tokens = 256;
  options.graphs.capture.prefill_buckets = {256};
  options.dispatch.require_graph = true;
  Rig rig(options);
  std::vector<RequestOptions> requests;
  requests.reserve(4);
  for (int32_t i = 0; i < 4; ++i) requests.push_back(request(60, i, 4));
  expect_exact(rig, requests);
  EXPECT_EQ(rig.device().most_tokens, 240);
  EXPECT_EQ(rig.device().num_steps, 4);
}

// G3 (c)
TEST(ScheduleTest, RaggedPromptsShareAStep) {
  RigOptions options;
  options.graphs.capture.prefill_buckets = {64};
  options.dispatch.require_graph = true;
  Rig rig(options);
  expect_exact(rig, {request(3, 1, 16), request(17, 2, 16), request(31, 3, 16)});
  EXPECT_EQ(rig.device().most_tokens, 51);
}

// G3 (a)
class ChunkedPrefillTest : public testing::TestWithParam<int32_t> {};

TEST_P(ChunkedPrefillTest, ChunksGiveTheSameReply) {
  RigOptions options;
  options.limits.max_tokens = GetParam();
  options.limits.max_requests = std::min(GetParam(), 4);
  Rig rig(options);
  RequestOptions longer = request(100, 5, 16);
  const std::vector<int32_t> more = fake::make_prompt(20, 6);
  longer.prompt.insert(longer.prompt.end(), more.begin(), more.end());
  expect_exact(rig, {request(100, 5, 16), longer, request(1, 7, 16)});
  EXPECT_LE(rig.device().most_tokens, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Budgets, ChunkedPrefillTest,
                         testing::Values(1, 2, 3, 4, 5, 7, 16, 33, 64, 512));

TEST(ScheduleTest, DecodesDoNotWaitForALongPrompt) {
  RigOptions options;
  options.limits.max_tokens = 16;
  Rig rig(options);
  const RequestId first = rig.add(request(4, 1, 40));
  rig.step();
  const RequestId second = rig.add(request(100, 2, 2));
  for (int32_t i = 2; i <= 8; ++i) {
    rig.step();
    EXPECT_EQ(std::ssize(rig.replies[first].tokens), i);  // one each step
  }
  EXPECT_EQ(rig.replies[second].tokens.size(), 1U);  // 7 steps of 15 tokens
  EXPECT_EQ(rig.device().most_tokens, 16);
}

TEST(ScheduleTest, FirstComeFirstServed) {
  RigOptions options;
  options.limits.max_requests = 2;
  Rig rig(options);
  std::vector<RequestId> ids;
  ids.reserve(6);
  for (int32_t i = 0; i < 6; ++i) ids.push_back(rig.add(request(3, i, 3 + i)));
  std::vector<RequestId> order;
  while (rig.step()) {
    for (const RequestEvent& event : rig.events) {
      if (event.output_tokens == 1) order.push_back(event.request);
    }
  }
  EXPECT_EQ(order, ids);
  EXPECT_EQ(rig.device().most_requests, 2);
}

// Where one step's penalty buffer holds two requests of eight, all take turns.
TEST(ScheduleTest, PenaltyHistoryIsABudgetOfEachStep) {
  for (const bool ahead : {false, true}) {
    RigOptions options;
    options.limits.max_history = 40;
    options.submit_ahead = ahead;
    options.dispatch.require_graph = true;
    Rig rig(options);
    std::vector<RequestOptions> requests;
    for (int32_t i = 0; i < 8; ++i) {
      requests.push_back(request(6, i, 12));
      if (i % 4 != 3) requests.back().sampling.repetition_penalty = 1.4F;
    }
    expect_exact(rig, requests);
  }
}

TEST(ScheduleTest, BiasesAreABudgetOfEachStep) {
  RigOptions options;
  options.limits.max_biases = 3;
  options.dispatch.require_graph = true;
  Rig rig(options);
  std::vector<RequestOptions> requests;
  for (int32_t i = 0; i < 5; ++i) {
    requests.push_back(request(6, i, 12));
    requests.back().sampling.logit_bias = {{i, 2.0F}, {i + 20, -INFINITY}};
  }
  expect_exact(rig, requests);
}

// G4
class BucketEdgeTest : public testing::TestWithParam<std::tuple<int32_t, bool>> {};

TEST_P(BucketEdgeTest, BatchesOfOneMaxLessOneAndMax) {
  const auto [maximum, padding] = GetParam();
  for (const int32_t batch : {1, maximum - 1, maximum}) {
    if (batch == 0) continue;
    RigOptions options;
    options.limits.max_requests = maximum;
    options.limits.max_tokens = 64 * maximum;
    options.limits.max_context = 16;
    options.graphs.capture.padding = padding;
    Rig rig(options);
    std::vector<RequestOptions> requests;
    requests.reserve(batch);
    for (int32_t i = 0; i < batch; ++i) requests.push_back(request(4, i, 6));
    // Decoding from context - 1 needs a page more than prefill did.
    for (int32_t i = 0; i < batch; i += 3) requests[i] = request(12, i, 4);
    expect_exact(rig, requests);
    const DispatchStats stats = rig.engine->stats().dispatch;
    EXPECT_EQ(rig.device().most_requests, batch);
    EXPECT_EQ(stats.graph_replays + stats.eager_fallbacks, rig.device().num_steps);
    const auto no_exact = stats.fallbacks_by_reason[static_cast<int32_t>(Reason::kNoExactBucket)];
    EXPECT_EQ(stats.eager_fallbacks, no_exact);
    if (padding) {
      EXPECT_EQ(stats.eager_fallbacks, 0);
    } else {
      const auto exact = default_decode_buckets(maximum);
      const bool has_bucket = std::count(exact.begin(), exact.end(), batch) > 0;
      int64_t replays = 0;
      for (const BucketCount& count : stats.buckets) {
        if (count.kind == RunnerKind::kDecodeGraph && count.bucket == batch) {
          replays = count.replays;
        }
      }
      EXPECT_EQ(replays > 0, has_bucket) << batch;
      if (!has_bucket) {
        EXPECT_GT(no_exact, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Maxima, BucketEdgeTest,
                         testing::Combine(testing::Values(1, 2, 3, 8, 12, 20, 33),
                                          testing::Bool()));

// G4: a prompt of context - 1 tokens leaves room for the one token that needs no place.
TEST(ScheduleTest, DecodeAtTheEndOfTheContext) {
  RigOptions options;
  options.limits.max_context = 17;  // pages of 4: the last token decoded starts a new page
  options.dispatch.require_graph = true;
  Rig rig(options);
  expect_exact(rig, {request(16, 1, 1), request(15, 2, 2), request(12, 3, 5)});
}

}  // namespace
}  // namespace encore
