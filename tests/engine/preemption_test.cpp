// Full KV cache: requests give way and come back, and nothing of that shows in their replies (M2).
#include <gtest/gtest.h>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Rig;
using fake::RigOptions;

// Whether steps are submitted ahead, and whether there is a prefix cache.
class PreemptionTest : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  PreemptionTest() {
    options_.submit_ahead = std::get<0>(GetParam());
    options_.prefix_cache = std::get<1>(GetParam());
  }
  RigOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Engines, PreemptionTest,
                         testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param) ? "Ahead" : "InTurn") +
                                  (std::get<1>(tested.param) ? "Cached" : "Uncached");
                         });

TEST_P(PreemptionTest, NoTokenIsRepeatedOrLost) {
  options_.kv = {.num_pages = 24, .page_size = 16};  // 384 tokens for 8 * 210
  options_.limits.max_history = 8 * 256;
  Rig rig(options_);
  std::vector<RequestOptions> requests(8);
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 8; ++i) {
    requests[i].prompt = fake::make_prompt(10, i);
    requests[i].max_tokens = 200;
    requests[i].ignore_eos = true;
    requests[i].sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    requests[i].sampling.seed = 100 + i;
    requests[i].sampling.repetition_penalty = 1.2F;
    requests[i].sampling.frequency_penalty = 0.3F;
    ids.push_back(rig.add(requests[i]));
  }
  rig.run();
  int64_t preemptions = 0;
  for (int32_t i = 0; i < 8; ++i) {
    const fake::Reply& reply = rig.replies[ids[i]];
    EXPECT_EQ(reply.tokens, fake::expected_tokens(requests[i], 200)) << i;
    EXPECT_EQ(reply.finish, FinishReason::kLength);
    preemptions += reply.last.num_preemptions;
  }
  const EngineStats stats = rig.engine->stats();
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(stats.num_preemptions, preemptions);
  EXPECT_EQ(stats.pages_used, 0);
  EXPECT_EQ(stats.pages_high_water, 24);
  EXPECT_EQ(rig.replies[ids[0]].last.num_preemptions, 0) << "the oldest gave way";
  // Each preemption may cost one reply's recomputation, not more.
  EXPECT_LT(stats.num_preemptions, 60);
  EXPECT_EQ(rig.log.size(), 1U) << "said once";
}

// A resumed request is longer than a step's budget and is recomputed in chunks.
TEST_P(PreemptionTest, RecomputationIsChunkedToo) {
  options_.kv = {.num_pages = 20, .page_size = 4};
  options_.limits.max_requests = 4;
  options_.limits.max_tokens = 6;
  Rig rig(options_);
  std::vector<RequestOptions> requests;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 12; ++i) {
    requests.push_back(fake::varied_request(i + 500, 20, 58));
    ids.push_back(rig.add(requests.back()));
  }
  rig.run();
  for (int32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(rig.replies[ids[i]].tokens,
              fake::expected_tokens(requests[i], requests[i].max_tokens));
  }
  EXPECT_GT(rig.engine->stats().num_preemptions, 0);
  EXPECT_LE(rig.device().most_tokens, 6);
}

TEST_P(PreemptionTest, PreemptedRequestCanBeCancelled) {
  options_.kv = {.num_pages = 8, .page_size = 4};
  Rig rig(options_);
  RequestOptions request;
  request.prompt = fake::make_prompt(8, 1);
  request.max_tokens = 20;
  request.ignore_eos = true;
  const RequestId older = rig.add(request);
  RequestOptions other = request;
  other.prompt = fake::make_prompt(8, 2);
  const RequestId newer = rig.add(other);
  while (rig.engine->stats().num_preemptions == 0) ASSERT_TRUE(rig.step());
  EXPECT_EQ(rig.engine->stats().num_waiting, 1);
  ASSERT_TRUE(rig.engine->cancel(newer).ok());
  rig.run();
  EXPECT_EQ(rig.replies[newer].finish, FinishReason::kCancelled);
  EXPECT_EQ(rig.replies[older].tokens, fake::expected_tokens(request, 20));
  EXPECT_EQ(rig.engine->stats().pages_used, 0);
}

}  // namespace
}  // namespace encore
