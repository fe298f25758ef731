// One request at a time, or a few: tokens, text, ends and errors (S2, S3).
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Reply;
using fake::Rig;
using fake::RigOptions;
using testing::ElementsAre;
using testing::HasSubstr;

RequestOptions request(std::vector<int32_t> prompt, int32_t max_tokens) {
  RequestOptions options;
  options.prompt = std::move(prompt);
  options.max_tokens = max_tokens;
  return options;
}

class EngineTest : public testing::TestWithParam<bool> {
 protected:
  EngineTest() { options_.submit_ahead = GetParam(); }
  RigOptions options_;
};

INSTANTIATE_TEST_SUITE_P(SubmitAhead, EngineTest, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Ahead" : "InTurn"; });

TEST_P(EngineTest, RepliesWithTheModelsTokens) {
  Rig rig(options_);
  const RequestOptions options = request({1, 2, 3, 4, 5}, 20);
  const Reply reply = rig.run_alone(options);
  EXPECT_EQ(reply.tokens, fake::expected_tokens(options, 20));
  EXPECT_EQ(reply.last.prompt_tokens, 5);
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
}

TEST_P(EngineTest, EverySamplingParameterArrives) {
  Rig rig(options_);
  RequestOptions options = request({1, 2, 3, 1, 2, 3}, 40);
  options.ignore_eos = true;
  options.sampling.temperature = 0.9F;
  options.sampling.seed = 12345;
  options.sampling.repetition_penalty = 1.5F;
  options.sampling.presence_penalty = 0.5F;
  options.sampling.frequency_penalty = 0.25F;
  options.sampling.logit_bias = {{7, 4.0F}, {8, -INFINITY}};
  EXPECT_EQ(rig.run_alone(options).tokens, fake::expected_tokens(options, 40));
}

TEST_P(EngineTest, TimingsAreInOrder) {
  Rig rig(options_);
  const RequestTimings timings = rig.run_alone(request({1, 2}, 5)).last.timings;
  EXPECT_GE(timings.scheduled_us, 0);
  EXPECT_GE(timings.first_token_us, timings.scheduled_us);
  EXPECT_GE(timings.last_token_us, timings.first_token_us);
  const EngineStats stats = rig.engine->stats();
  EXPECT_GT(stats.total_costs.host_ns(), 0);
  EXPECT_GT(stats.total_costs.wait_ns, 0);
  EXPECT_EQ(stats.prompt_tokens, 2);
  EXPECT_EQ(stats.generation_tokens, 5);
}

TEST_P(EngineTest, SeveralTokensMayEndTheReply) {
  options_.end_tokens = {40, 41};
  Rig rig(options_);
  rig.device().scripts[9] = {1, {0, 1, 41, 2}};
  const Reply ended = rig.run_alone(request({9}, 10));
  EXPECT_THAT(ended.tokens, ElementsAre(0, 1, 41));
  EXPECT_EQ(ended.text, "AB");
  EXPECT_EQ(ended.finish, FinishReason::kStop);

  RequestOptions own_stop = request({9}, 4);
  own_stop.ignore_eos = true;
  EXPECT_EQ(rig.run_alone(own_stop).finish, FinishReason::kLength);
  own_stop.stop_tokens = {1};
  EXPECT_THAT(rig.run_alone(own_stop).tokens, ElementsAre(0, 1));
}

TEST_P(EngineTest, MinTokensBansTheEnd) {
  options_.end_tokens.resize(62);
  for (int32_t i = 0; i < 62; ++i) options_.end_tokens[i] = i;
  Rig rig(options_);
  RequestOptions options = request({5, 6}, 30);
  options.sampling.min_tokens = 12;
  options.stop = {"<62>"};
  const Reply reply = rig.run_alone(options);
  ASSERT_GE(reply.tokens.size(), 12U);
  for (int32_t i = 0; i < 11; ++i) EXPECT_GE(reply.tokens[i], 62);
  EXPECT_EQ(reply.finish, FinishReason::kStop);
}

TEST_P(EngineTest, LogprobsComeToWhoAsked) {
  Rig rig(options_);
  RequestOptions asked = request({1, 2, 3}, 3);
  asked.sampling.num_logprobs = 2;
  const RequestId with = rig.add(asked);
  const RequestId without = rig.add(request({4, 5, 6}, 3));
  rig.run();
  EXPECT_TRUE(rig.replies[with].last.has_logprob);
  ASSERT_EQ(rig.replies[with].last.top_logprobs.size(), 2U);
  EXPECT_EQ(rig.replies[with].last.top_logprobs[0].token, rig.replies[with].last.token);
  EXPECT_FALSE(rig.replies[without].last.has_logprob);
  EXPECT_TRUE(rig.replies[without].last.top_logprobs.empty());
}

// S2
TEST_P(EngineTest, NonFiniteRowEndsThatRequestAlone) {
  Rig rig(options_);
  std::vector<RequestOptions> requests;
  std::vector<RequestId> ids;
  requests.reserve(4);
  for (int32_t i = 0; i < 4; ++i) requests.push_back(request({10 + i, 1, 2}, 8));
  rig.device().nan_at.insert({11, 3 + 2});
  ids.reserve(requests.size());
  for (const RequestOptions& options : requests) ids.push_back(rig.add(options));
  rig.run();
  EXPECT_EQ(rig.replies[ids[1]].finish, FinishReason::kError);
  EXPECT_THAT(rig.replies[ids[1]].last.message, HasSubstr("NaN or infinite logits at position 5"));
  EXPECT_EQ(rig.replies[ids[1]].tokens.size(), 2U);
  for (const int32_t i : {0, 2, 3}) {
    EXPECT_EQ(rig.replies[ids[i]].tokens, fake::expected_tokens(requests[i], 8));
  }
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
  rig.device().nan_at.clear();
  EXPECT_EQ(rig.run_alone(requests[1]).tokens, fake::expected_tokens(requests[1], 8));
}

// S3
class StopTest : public EngineTest {
 protected:
  // The reply to a scripted output, one letter a token unless said, under `stops`.
  Reply run_script(std::vector<int32_t> script, std::vector<std::string> stops,
                   int32_t max_tokens = 50) {
    Rig rig(options_);
    rig.device().scripts[1] = {2, std::move(script)};
    RequestOptions options = request({1, 2}, max_tokens);
    options.stop = std::move(stops);
    const RequestId id = rig.add(options);
    while (rig.step()) {
      for (const RequestEvent& event : rig.events) deltas_.push_back(event.text);
    }
    return rig.replies[id];
  }
  std::vector<std::string> deltas_;
};

INSTANTIATE_TEST_SUITE_P(SubmitAhead, StopTest, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Ahead" : "InTurn"; });

TEST_P(StopTest, NothingOfTheStopIsSent) {
  const Reply reply = run_script({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {"DEFGHIJ"});
  EXPECT_EQ(reply.text, "ABC");
  EXPECT_EQ(reply.finish, FinishReason::kStop);
  EXPECT_EQ(reply.tokens.size(), 10U);
}

TEST_P(StopTest, TwoNewlinesStopAsOneTokenAndAsTwo) {
  EXPECT_EQ(run_script({0, 27, 1}, {"\n\n"}).text, "A");
  EXPECT_EQ(run_script({0, 26, 26, 1}, {"\n\n"}).text, "A");
  EXPECT_EQ(run_script({0, 26, 1, 27, 1}, {"\n\n"}).text, "A\nB");
}

TEST_P(StopTest, OverlappingStopsEndAtTheFirst) {
  EXPECT_EQ(run_script({23, 0, 1, 2}, {"AB", "ABC"}).text, "X");
}

TEST_P(StopTest, NearMatchIsReleasedAtTheEnd) {
  const Reply ended = run_script({0, 3, 4, 5, 63}, {"DEFGHIJ"});
  EXPECT_EQ(ended.text, "ADEF");
  EXPECT_EQ(ended.finish, FinishReason::kStop);
  const Reply cut = run_script({0, 3, 4, 5, 6}, {"DEFGHIJ"}, 4);
  EXPECT_EQ(cut.text, "ADEF");
  EXPECT_EQ(cut.finish, FinishReason::kLength);
}

TEST_P(StopTest, CutCharacterComesOnceAtTheEnd) {
  EXPECT_EQ(run_script({0, 28, 29, 28}, {}, 4).text, "A\xC3\xA9\xEF\xBF\xBD");
}

TEST_P(EngineTest, CancelEndsARequestInAnyState) {
  options_.limits.max_requests = 1;
  Rig rig(options_);
  const RequestId running = rig.add(request(fake::make_prompt(100, 1), 50));
  const RequestId queued = rig.add(request({1}, 50));
  ASSERT_TRUE(rig.step());  // a prefill chunk
  ASSERT_TRUE(rig.engine->cancel(running).ok());
  ASSERT_TRUE(rig.engine->cancel(running).ok());  // twice in one step is harmless
  rig.step();
  EXPECT_EQ(rig.replies[running].finish, FinishReason::kCancelled);
  EXPECT_EQ(rig.engine->cancel(running).code(), StatusCode::kNotFound);
  rig.step();
  ASSERT_TRUE(rig.engine->cancel(queued).ok());
  rig.run();
  EXPECT_EQ(rig.replies[queued].finish, FinishReason::kCancelled);
  const RequestId never_run = rig.add(request({1}, 50));
  ASSERT_TRUE(rig.engine->cancel(never_run).ok());
  rig.run();
  EXPECT_EQ(rig.replies[never_run].finish, FinishReason::kCancelled);
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
  EXPECT_EQ(rig.engine->cancel(77).code(), StatusCode::kNotFound);
}

TEST_P(EngineTest, RefusedStepEndsItsRequestsAndTheEngineGoesOn) {
  options_.dispatch.require_graph = true;
  Rig rig(options_);
  rig.model.prefill_reason = Reason::kObserved;
  const Reply refused = rig.run_alone(request({1, 2}, 4));
  EXPECT_EQ(refused.finish, FinishReason::kError);
  EXPECT_THAT(refused.last.message, HasSubstr("prefill_graph says observed"));
  rig.model.prefill_reason = Reason::kNone;
  EXPECT_EQ(rig.run_alone(request({1, 2}, 4)).tokens.size(), 4U);
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
}

TEST_P(EngineTest, FailedDeviceEndsEveryRequest) {
  options_.limits.max_requests = 1;
  Rig rig(options_);
  const RequestId running = rig.add(request({1, 2}, 50));
  const RequestId waiting = rig.add(request({3, 4}, 50));
  rig.step();
  rig.device().fail_wait = internal_error("the device fell off the bus");
  EXPECT_FALSE(rig.step());
  EXPECT_THAT(rig.last_status.message(), HasSubstr("fell off"));
  for (const RequestId id : {running, waiting}) {
    EXPECT_EQ(rig.replies[id].finish, FinishReason::kError);
  }
  EXPECT_EQ(rig.engine->add(request({1}, 1)).status().code(), StatusCode::kInternal);
}

TEST_P(EngineTest, DamagedGuardStopsTheEngine) {
  options_.guard_check_interval = 2;
  Rig rig(options_);
  rig.model.fail_guards = internal_error("guard of arena damaged");
  rig.add(request({1, 2}, 10));
  EXPECT_TRUE(rig.step());
  EXPECT_FALSE(rig.step());
  EXPECT_THAT(rig.last_status.message(), HasSubstr("guard of arena"));
}

TEST(EngineIdleTest, StepWithoutWorkReturnsAtOnce) {
  Rig rig;
  EXPECT_TRUE(rig.engine->idle());
  EXPECT_FALSE(rig.step());
  EXPECT_TRUE(rig.last_status.ok());
  EXPECT_EQ(rig.device().num_steps, 0);
}

TEST(EngineAheadTest, DecodeStepsAreSubmittedBeforeTheLastTokensAreKnown) {
  RigOptions options;
  options.submit_ahead = true;
  Rig rig(options);
  RequestOptions long_one = request({1, 2, 3}, 50);
  long_one.ignore_eos = true;
  const Reply reply = rig.run_alone(long_one);
  EXPECT_EQ(reply.tokens, fake::expected_tokens(long_one, 50));
  EXPECT_EQ(rig.engine->stats().steps_ahead, 49);
  EXPECT_EQ(rig.device().num_steps, 50);  // none wasted where only length ends the reply
}

}  // namespace
}  // namespace encore
