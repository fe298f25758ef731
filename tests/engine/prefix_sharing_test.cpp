// Requests that begin alike share pages: within one step, one after another, over turns of a chat;
// and nothing of that shows in their replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Reply;
using fake::Rig;
using fake::RigOptions;
using testing::HasSubstr;

RequestOptions request(std::vector<int32_t> prompt, int32_t max_tokens, uint64_t seed = 0) {
  RequestOptions options;
  options.prompt = std::move(prompt);
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  if (seed > 0) {
    options.sampling.temperature = 0.8F;
    options.sampling.seed = seed;
  }
  return options;
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Pages of 4 tokens.
class PrefixSharingTest : public testing::TestWithParam<bool> {
 protected:
  PrefixSharingTest() { options_.submit_ahead = GetParam(); }
  RigOptions options_;
};

INSTANTIATE_TEST_SUITE_P(SubmitAhead, PrefixSharingTest, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Ahead" : "InTurn"; });

TEST_P(PrefixSharingTest, ChoicesOfOnePromptShareItWithinTheSameStep) {
  Rig rig(options_);
  std::vector<RequestOptions> choices;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    choices.push_back(request(fake::make_prompt(18, 1), 10, seed));
  }
  const std::vector<RequestId> ids = rig.add_all(choices);
  rig.step();
  EXPECT_EQ(rig.device().most_requests, 4);
  EXPECT_EQ(rig.device().tokens_run, 18 + 3 * 2);
  EXPECT_EQ(rig.engine->stats().pages_used, 4 + 4);  // four shared, one of its own each
  EXPECT_EQ(rig.engine->stats().prefix_cache_queries, 4 * 18);
  EXPECT_EQ(rig.engine->stats().prefix_cache_hits, 3 * 16);
  rig.run();
  for (size_t i = 0; i < 4; ++i) {
    const Reply& reply = rig.replies[ids[i]];
    EXPECT_EQ(reply.last.cached_tokens, i == 0 ? 0 : 16);
    EXPECT_EQ(reply.last.prompt_tokens, 18);
    EXPECT_EQ(reply.tokens, fake::expected_tokens(choices[i], 10)) << i;
  }
  rig.expect_at_rest();
}

// A prompt that takes several steps is still shared by the one that arrived with it.
TEST_P(PrefixSharingTest, ChunkedPromptIsSharedByTheNext) {
  options_.limits.max_tokens = 16;
  Rig rig(options_);
  const std::vector<RequestOptions> choices = {request(fake::make_prompt(50, 2), 8, 1),
                                               request(fake::make_prompt(50, 2), 8, 2)};
  const std::vector<RequestId> ids = rig.add_all(choices);
  rig.run();
  EXPECT_EQ(rig.replies[ids[1]].last.cached_tokens, 48);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rig.replies[ids[i]].tokens, fake::expected_tokens(choices[i], 8));
  }
}

// One token at least is computed, and none into a shared page.
TEST_P(PrefixSharingTest, WholePagesButForTheLastToken) {
  struct {
    int32_t prompt_size;
    int32_t cached_tokens;
  } const cases[] = {{1, 0}, {3, 0}, {4, 0}, {5, 4}, {8, 4}, {9, 8}, {16, 12}, {17, 16}};
  for (const auto& tested : cases) {
    Rig rig(options_);
    const RequestOptions options = request(fake::make_prompt(tested.prompt_size, 3), 6);
    EXPECT_EQ(rig.run_alone(options).last.cached_tokens, 0);
    const int64_t tokens_before = rig.device().tokens_run;
    const Reply again = rig.run_alone(options);
    EXPECT_EQ(again.last.cached_tokens, tested.cached_tokens) << tested.prompt_size;
    EXPECT_EQ(again.tokens, fake::expected_tokens(options, 6));
    EXPECT_EQ(rig.device().tokens_run - tokens_before,
              tested.prompt_size - tested.cached_tokens + 5);
    rig.expect_at_rest();
  }
}

// 10 + 15 tokens, the last of which was never computed: six pages of four.
TEST_P(PrefixSharingTest, NextTurnOfAChatFindsTheReplyToo) {
  Rig rig(options_);
  RequestOptions turn = request(fake::make_prompt(10, 4), 15);
  const Reply first = rig.run_alone(turn);
  turn.prompt = joined(joined(turn.prompt, first.tokens), fake::make_prompt(5, 5));
  const Reply second = rig.run_alone(turn);
  EXPECT_EQ(second.last.cached_tokens, 24);
  EXPECT_EQ(second.tokens, fake::expected_tokens(turn, 15));
}

// Equal replies are computed side by side; what is whole of them is then kept once. Their prompt
// ends with a page, so each computes a copy of that page: all go over to one.
TEST_P(PrefixSharingTest, EqualPagesComputedTwiceAreGivenBack) {
  Rig rig(options_);
  const RequestOptions options = request(fake::make_prompt(8, 6), 33);
  const std::vector<RequestId> ids = rig.add_all(std::vector<RequestOptions>(4, options));
  for (int32_t i = 0; i < 30; ++i) rig.step();
  // 37 tokens computed or 38: nine whole pages shared, and what follows of each.
  EXPECT_GE(rig.engine->stats().pages_used, 9 + 4);
  EXPECT_LE(rig.engine->stats().pages_used, 8 + 4 * 2);
  rig.run();
  for (const RequestId id : ids) {
    EXPECT_EQ(rig.replies[id].tokens, fake::expected_tokens(options, 33));
  }
  EXPECT_EQ(rig.engine->stats().pages_cached, 10);  // of 40 tokens
  rig.expect_at_rest();
}

// What follows a page that was given back for an equal one is found by the next turn.
TEST_P(PrefixSharingTest, RepliesAfterASharedPageAreFound) {
  Rig rig(options_);
  const RequestOptions choice = request(fake::make_prompt(8, 7), 13, 5);
  std::vector<RequestOptions> choices = {request(choice.prompt, 13, 4), choice};
  const std::vector<RequestId> ids = rig.add_all(choices);
  rig.run();
  RequestOptions turn = choice;
  turn.prompt = joined(joined(choice.prompt, rig.replies[ids[1]].tokens), {1, 2, 3});
  EXPECT_EQ(rig.run_alone(turn).last.cached_tokens, 20);
}

TEST_P(PrefixSharingTest, KeptPagesMakeRoomForOthers) {
  options_.kv.num_pages = 16;
  Rig rig(options_);
  for (int32_t salt = 0; salt < 6; ++salt) {
    const RequestOptions options = request(fake::make_prompt(60, 10 + salt), 4);
    const Reply reply = rig.run_alone(options);
    EXPECT_EQ(reply.tokens, fake::expected_tokens(options, 4));
    EXPECT_EQ(reply.last.num_preemptions, 0);
    rig.expect_at_rest();
    EXPECT_EQ(rig.engine->stats().pages_cached, 15);  // of 63 tokens
  }
  EXPECT_EQ(rig.engine->stats().prefix_cache_evictions, 5 * 15);
}

// Ten pages are kept; eight more take the six free ones and the last two of these.
TEST_P(PrefixSharingTest, APrefixIsCutFromItsEnd) {
  options_.kv.num_pages = 16;
  Rig rig(options_);
  const RequestOptions first = request(fake::make_prompt(40, 25), 1);
  rig.run_alone(first);
  rig.run_alone(request(fake::make_prompt(32, 26), 1));
  EXPECT_EQ(rig.engine->stats().prefix_cache_evictions, 2);
  EXPECT_EQ(rig.run_alone(first).last.cached_tokens, 32);
}

TEST_P(PrefixSharingTest, LeastRecentlyUsedPrefixGoesFirst) {
  options_.kv.num_pages = 12;
  Rig rig(options_);
  const RequestOptions a = request(fake::make_prompt(16, 20), 1);  // four pages each
  const RequestOptions b = request(fake::make_prompt(16, 21), 1);
  const RequestOptions c = request(fake::make_prompt(16, 22), 1);
  const RequestOptions d = request(fake::make_prompt(8, 23), 1);
  for (const RequestOptions& options : {a, b, c}) rig.run_alone(options);
  EXPECT_EQ(rig.run_alone(a).last.cached_tokens, 12);  // now b is the oldest
  rig.run_alone(d);
  EXPECT_EQ(rig.run_alone(a).last.cached_tokens, 12);
  EXPECT_EQ(rig.run_alone(c).last.cached_tokens, 12);
  EXPECT_LT(rig.run_alone(b).last.cached_tokens, 12);
}

TEST_P(PrefixSharingTest, WithoutTheCacheNothingIsShared) {
  options_.prefix_cache = false;
  Rig rig(options_);
  const RequestOptions options = request(fake::make_prompt(20, 8), 5);
  rig.run_alone(options);
  const Reply again = rig.run_alone(options);
  EXPECT_EQ(again.last.cached_tokens, 0);
  EXPECT_EQ(again.tokens, fake::expected_tokens(options, 5));
  const EngineStats stats = rig.engine->stats();
  EXPECT_EQ(stats.prefix_cache_queries, 0);
  EXPECT_EQ(stats.pages_cached, 0);
  EXPECT_EQ(stats.pages_free, stats.num_pages);
}

// S2
TEST_P(PrefixSharingTest, PagesOfARequestWithNaNsAreNotKept) {
  Rig rig(options_);
  const RequestOptions options = request(joined({11}, fake::make_prompt(11, 9)), 8);
  rig.device().nan_at.insert({11, 12 + 6});
  const Reply ended = rig.run_alone(options);
  EXPECT_EQ(ended.finish, FinishReason::kError);
  EXPECT_EQ(ended.tokens.size(), 6U);
  EXPECT_EQ(rig.engine->stats().pages_cached, 0);
  rig.device().nan_at.clear();
  const Reply clean = rig.run_alone(options);
  EXPECT_EQ(clean.last.cached_tokens, 0);
  EXPECT_EQ(clean.tokens, fake::expected_tokens(options, 8));
}

TEST_P(PrefixSharingTest, PagesMerelySharedByARequestWithNaNsStay) {
  Rig rig(options_);
  const RequestOptions options = request(joined({11}, fake::make_prompt(11, 9)), 8);
  rig.run_alone(options);  // 19 tokens computed: four pages
  RequestOptions longer = options;
  longer.prompt = joined(options.prompt, fake::make_prompt(9, 30));
  rig.device().nan_at.insert({11, 21 + 2});
  EXPECT_EQ(rig.run_alone(longer).finish, FinishReason::kError);
  EXPECT_EQ(rig.engine->stats().pages_cached, 4);
  EXPECT_EQ(rig.run_alone(options).last.cached_tokens, 8);
}

// Who shares pages with a request that ends by NaNs goes on, and puts nothing behind them.
TEST_P(PrefixSharingTest, SharersOfForgottenPagesGoOn) {
  Rig rig(options_);
  const std::vector<int32_t> prompt = joined({11}, fake::make_prompt(12, 9));
  RequestOptions bad = request(prompt, 30);
  RequestOptions good = request(joined(prompt, {5, 6, 7, 8, 9}), 30, 3);
  rig.device().nan_at.insert({11, 13 + 4});  // the other one samples from position 18 on
  const std::vector<RequestId> ids = rig.add_all({bad, good});
  rig.run();
  EXPECT_EQ(rig.replies[ids[0]].finish, FinishReason::kError);
  EXPECT_EQ(rig.replies[ids[1]].last.cached_tokens, 12);
  EXPECT_EQ(rig.replies[ids[1]].tokens, fake::expected_tokens(good, 30));
  EXPECT_EQ(rig.engine->stats().pages_cached, 0);
  rig.expect_at_rest();
}

// The step that was to write the pages never ran.
TEST_P(PrefixSharingTest, PagesOfARefusedStepAreNotKept) {
  options_.dispatch.require_graph = true;
  Rig rig(options_);
  const RequestOptions options = request(fake::make_prompt(20, 12), 4);
  rig.model.prefill_reason = Reason::kObserved;
  for (const RequestId id : rig.add_all({options, options})) {
    rig.run();
    EXPECT_EQ(rig.replies[id].finish, FinishReason::kError);
    EXPECT_THAT(rig.replies[id].last.message, HasSubstr("observed"));
  }
  rig.expect_at_rest();
  EXPECT_EQ(rig.engine->stats().pages_cached, 0);
  rig.model.prefill_reason = Reason::kNone;
  const Reply reply = rig.run_alone(options);
  EXPECT_EQ(reply.last.cached_tokens, 0);
  EXPECT_EQ(reply.tokens, fake::expected_tokens(options, 4));
}

// All but one token of the second request is in pages that the step is to compute, and the step has
// no room for its biases: it must not hold them when the step is refused.
TEST_P(PrefixSharingTest, RefusedPagesAreNotHeldByAnyoneWhoWaits) {
  options_.dispatch.require_graph = true;
  options_.limits.max_biases = 3;
  Rig rig(options_);
  RequestOptions options = request(fake::make_prompt(17, 12), 4);
  options.sampling.logit_bias = {{1, 0.5F}, {2, 0.5F}};
  const std::vector<RequestId> ids = rig.add_all({options, options});
  rig.model.prefill_reason = Reason::kObserved;
  rig.step();
  EXPECT_EQ(rig.replies[ids[0]].finish, FinishReason::kError);
  EXPECT_EQ(rig.replies[ids[1]].num_finishes, 0);
  rig.model.prefill_reason = Reason::kNone;
  rig.run();
  EXPECT_EQ(rig.replies[ids[1]].last.cached_tokens, 0);
  EXPECT_EQ(rig.replies[ids[1]].tokens, fake::expected_tokens(options, 4));
  rig.expect_at_rest();
}

// Cancelled while the steps that write its pages are in flight: they are written all the same.
TEST_P(PrefixSharingTest, PagesOfACancelledRequestAreWhole) {
  options_.limits.max_tokens = 8;
  for (int32_t steps = 1; steps <= 6; ++steps) {
    Rig rig(options_);
    const RequestOptions options = request(fake::make_prompt(40, 13), 5);
    const RequestId cancelled = rig.add(options);
    for (int32_t i = 0; i < steps; ++i) rig.step();
    ASSERT_TRUE(rig.engine->cancel(cancelled).ok());
    const RequestId next = rig.add(options);
    rig.run();
    EXPECT_EQ(rig.replies[cancelled].finish, FinishReason::kCancelled);
    EXPECT_GE(rig.replies[next].last.cached_tokens, std::min(8 * steps, 36));
    EXPECT_EQ(rig.replies[next].tokens, fake::expected_tokens(options, 5));
    rig.expect_at_rest();
  }
}

TEST_P(PrefixSharingTest, PreemptedRequestsComputeLessAgain) {
  int64_t tokens_run[2] = {};
  for (const bool cache : {false, true}) {
    RigOptions options = options_;
    options.kv = {.num_pages = 24, .page_size = 16};
    options.prefix_cache = cache;
    Rig rig(options);
    std::vector<RequestOptions> requests;
    requests.reserve(8);
    for (int32_t i = 0; i < 8; ++i) requests.push_back(request(fake::make_prompt(10, i), 200));
    const std::vector<RequestId> ids = rig.add_all(requests);
    rig.run();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(rig.replies[ids[i]].tokens, fake::expected_tokens(requests[i], 200));
    }
    EXPECT_GT(rig.engine->stats().num_preemptions, 0);
    // A lookup is counted once a request, however often it comes back.
    EXPECT_EQ(rig.engine->stats().prefix_cache_queries, cache ? 8 * 10 : 0);
    EXPECT_EQ(rig.engine->stats().prefix_cache_hits, 0);
    tokens_run[cache ? 1 : 0] = rig.device().tokens_run;
  }
  EXPECT_LT(tokens_run[1], tokens_run[0]);
}

}  // namespace
}  // namespace encore
