// Cancels and deadlines in every state, and requests that are added together (V1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Reply;
using fake::Rig;
using fake::RigOptions;
using testing::HasSubstr;

RequestOptions request(int32_t prompt_size, int32_t salt, int32_t max_tokens) {
  RequestOptions options;
  options.prompt = fake::make_prompt(prompt_size, salt);
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

class EndsTest : public testing::TestWithParam<bool> {
 protected:
  EndsTest() { options_.submit_ahead = GetParam(); }
  RigOptions options_;
};

INSTANTIATE_TEST_SUITE_P(SubmitAhead, EndsTest, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Ahead" : "InTurn"; });

// After every number of steps from none to past the end: queued, each prefill chunk, each decode,
// at the last token, gone.
TEST_P(EndsTest, CancelWithinOneStepWhereverTheRequestIs) {
  options_.limits.max_requests = 2;
  options_.limits.max_tokens = 8;
  int32_t num_cancelled = 0;
  int32_t num_too_late = 0;
  for (int32_t steps = 0; steps < 22; ++steps) {
    Rig rig(options_);
    const RequestOptions other = request(9, 1, 12);
    const RequestId first = rig.add(other);
    const RequestId second = rig.add(request(30, 2, 4));
    const RequestId third = rig.add(request(10, 3, 3));
    for (int32_t i = 0; i < steps; ++i) rig.step();
    for (const RequestId id : {second, third}) {
      const bool ended = rig.replies[id].num_finishes > 0;
      const Status cancelled = rig.engine->cancel(id);
      EXPECT_EQ(cancelled.ok(), !ended);
      ++(ended ? num_too_late : num_cancelled);
    }
    rig.step();
    for (const RequestId id : {second, third}) {
      EXPECT_EQ(rig.replies[id].num_finishes, 1) << "not within one step, after " << steps;
      EXPECT_EQ(rig.engine->cancel(id).code(), StatusCode::kNotFound);
    }
    rig.run();
    EXPECT_EQ(rig.replies[first].tokens, fake::expected_tokens(other, 12));
    rig.expect_at_rest();
  }
  EXPECT_GT(num_cancelled, 10);
  EXPECT_GT(num_too_late, 5);
}

TEST_P(EndsTest, CancelOfAPreemptedRequest) {
  options_.kv.num_pages = 12;
  Rig rig(options_);
  const std::vector<RequestId> ids =
      rig.add_all({request(10, 1, 30), request(10, 2, 30), request(10, 3, 30)});
  while (rig.engine->stats().num_preemptions == 0) ASSERT_TRUE(rig.step());
  ASSERT_TRUE(rig.engine->cancel(ids[2]).ok());
  rig.step();
  EXPECT_EQ(rig.replies[ids[2]].finish, FinishReason::kCancelled);
  rig.run();
  EXPECT_EQ(rig.replies[ids[0]].tokens.size(), 30U);
  EXPECT_EQ(rig.replies[ids[1]].tokens.size(), 30U);
  rig.expect_at_rest();
}

// Long enough for a slow machine to bring each request to its state before.
constexpr int64_t kDeadlineUs = 1000000;

TEST_P(EndsTest, DeadlineEndsARequestWhereverItIs) {
  options_.limits.max_requests = 3;
  options_.limits.max_tokens = 8;
  options_.limits.max_context = 4096;
  options_.kv.num_pages = 2048;
  Rig rig(options_);
  const RequestOptions other = request(4, 1, 60);
  RequestOptions decoding = request(4, 2, 4000);
  RequestOptions prefilling = request(3000, 3, 10);
  RequestOptions queued = request(4, 4, 10);
  for (RequestOptions* late : {&decoding, &prefilling, &queued}) late->deadline_us = kDeadlineUs;
  const RequestId first = rig.add(other);
  const std::vector<RequestId> ids = rig.add_all({decoding, prefilling, queued});
  for (int32_t i = 0; i < 5; ++i) ASSERT_TRUE(rig.step());
  for (const RequestId id : ids) ASSERT_EQ(rig.replies[id].num_finishes, 0);
  std::this_thread::sleep_for(std::chrono::microseconds(kDeadlineUs));
  ASSERT_TRUE(rig.step());
  for (const RequestId id : ids) EXPECT_EQ(rig.replies[id].finish, FinishReason::kDeadline);
  EXPECT_GE(rig.replies[ids[0]].tokens.size(), 4U);
  EXPECT_EQ(rig.replies[ids[1]].tokens.size(), 0U);
  EXPECT_EQ(rig.replies[ids[2]].last.timings.scheduled_us, -1);
  rig.run();
  EXPECT_EQ(rig.replies[first].tokens, fake::expected_tokens(other, 60));
  EXPECT_EQ(rig.engine->stats().finished[static_cast<int32_t>(FinishReason::kDeadline)], 3);
  rig.expect_at_rest();
}

TEST_P(EndsTest, DeadlineOfAPreemptedRequest) {
  options_.kv.num_pages = 12;
  Rig rig(options_);
  std::vector<RequestOptions> requests = {request(10, 1, 30), request(10, 2, 30),
                                          request(10, 3, 30)};
  requests[2].deadline_us = kDeadlineUs;
  const std::vector<RequestId> ids = rig.add_all(requests);
  while (rig.engine->stats().num_preemptions == 0) ASSERT_TRUE(rig.step());
  ASSERT_EQ(rig.replies[ids[2]].num_finishes, 0);
  std::this_thread::sleep_for(std::chrono::microseconds(kDeadlineUs));
  rig.step();
  EXPECT_EQ(rig.replies[ids[2]].finish, FinishReason::kDeadline);
  rig.run();
  EXPECT_EQ(rig.replies[ids[0]].tokens.size(), 30U);
  rig.expect_at_rest();
}

// The beginning of a stop text, and half a character: their tokens were reported.
TEST_P(EndsTest, TextThatWasHeldBackComesWithTheEnd) {
  Rig rig(options_);
  rig.device().scripts[10] = {2, {7, 8, 9}};
  rig.device().scripts[11] = {2, {7, 28, 29}};
  std::vector<RequestOptions> requests(3);
  for (RequestOptions& options : requests) options.max_tokens = 20;
  requests[0].prompt = {10, 3};
  requests[0].stop = {"HIK"};
  requests[1].prompt = {11, 3};
  requests[2] = requests[0];
  requests[2].deadline_us = kDeadlineUs;
  const std::vector<RequestId> ids = rig.add_all(requests);
  for (int32_t i = 0; i < 2; ++i) ASSERT_TRUE(rig.step());
  EXPECT_EQ(rig.replies[ids[0]].text, "");
  EXPECT_EQ(rig.replies[ids[1]].text, "H");
  EXPECT_EQ(rig.replies[ids[2]].text, "");
  ASSERT_TRUE(rig.engine->cancel(ids[0]).ok());
  ASSERT_TRUE(rig.engine->cancel(ids[1]).ok());
  std::this_thread::sleep_for(std::chrono::microseconds(kDeadlineUs));
  rig.step();
  EXPECT_EQ(rig.replies[ids[0]].finish, FinishReason::kCancelled);
  EXPECT_EQ(rig.replies[ids[0]].text, "HI");
  EXPECT_EQ(rig.replies[ids[1]].finish, FinishReason::kCancelled);
  EXPECT_EQ(rig.replies[ids[1]].text, "H\xEF\xBF\xBD");
  EXPECT_EQ(rig.replies[ids[2]].finish, FinishReason::kDeadline);
  EXPECT_EQ(rig.replies[ids[2]].text, "HI");
  rig.run();
  rig.expect_at_rest();
}

TEST_P(EndsTest, DeadlineThatHasPassedOnArrivalRunsNothing) {
  Rig rig(options_);
  RequestOptions late = request(4, 1, 10);
  late.deadline_us = 0;
  const Reply reply = rig.run_alone(late);
  EXPECT_EQ(reply.finish, FinishReason::kDeadline);
  EXPECT_EQ(rig.device().num_steps, 0);
  rig.expect_at_rest();
}

TEST_P(EndsTest, DeadlinesThatAreNotReachedChangeNothing) {
  Rig rig(options_);
  for (const int64_t deadline_us :
       {int64_t{-1}, int64_t{60000000}, std::numeric_limits<int64_t>::max()}) {
    RequestOptions options = request(4, 1, 10);
    options.deadline_us = deadline_us;
    EXPECT_EQ(rig.run_alone(options).tokens, fake::expected_tokens(options, 10));
  }
}

TEST_P(EndsTest, RequestsAddedTogetherBeginTogether) {
  Rig rig(options_);
  std::vector<RequestOptions> options;
  options.reserve(5);
  for (int32_t i = 0; i < 5; ++i) options.push_back(request(4, i, 3));
  const std::vector<RequestId> ids = rig.add_all(options);
  EXPECT_THAT(ids, testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(rig.engine->stats().num_waiting, 5);
  rig.step();
  EXPECT_EQ(rig.device().most_requests, 5);
  rig.run();
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rig.replies[ids[i]].tokens, fake::expected_tokens(options[i], 3));
  }
}

TEST_P(EndsTest, RequestsAddedTogetherAreAllOrNone) {
  Rig rig(options_);
  std::vector<RequestOptions> options = {request(4, 1, 3), request(4, 2, 3), request(4, 3, 3)};
  options[1].sampling.top_p = 2.0F;
  options[2].prompt.clear();
  const auto refused = rig.engine->add_all(options);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("top_p"));
  EXPECT_TRUE(rig.engine->idle());
  EXPECT_EQ(rig.engine->stats().num_waiting, 0);
  EXPECT_FALSE(rig.step());
  EXPECT_THAT(rig.add_all({}), testing::IsEmpty());
  EXPECT_EQ(rig.add(request(4, 1, 1)), 1U) << "a refused request has no id";
}

}  // namespace
}  // namespace encore
