// A reply depends on its own request alone; and over many rounds, every page comes back.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "engine_rig.h"

namespace encore {
namespace {

using fake::Rig;
using fake::RigOptions;

struct Company {
  const char* name;
  int32_t max_requests;
  int32_t max_tokens;
  int32_t num_pages;
  bool ahead;
  bool graphs;
  bool prefix_cache = true;
};

// Some alone in what they say, others in groups that begin alike, some of these twice or thrice.
RequestOptions grouped_request(int32_t number) {
  RequestOptions request = fake::varied_request(number, 40, 40);
  if (number % 3 == 0) return request;
  const std::vector<int32_t> beginning = fake::make_prompt(5 + 9 * (number % 4), number % 4);
  request.prompt.resize(std::min<size_t>(request.prompt.size(), number % 7));
  request.prompt.insert(request.prompt.begin(), beginning.begin(), beginning.end());
  return request;
}

class CompanyTest : public testing::TestWithParam<Company> {};

TEST_P(CompanyTest, RepliesAreTheSameInEveryCompany) {
  const Company& company = GetParam();
  RigOptions options;
  options.limits.max_requests = company.max_requests;
  options.limits.max_tokens = company.max_tokens;
  options.kv.num_pages = company.num_pages;
  options.submit_ahead = company.ahead;
  options.prefix_cache = company.prefix_cache;
  options.dispatch.eager_samples = 3;
  if (!company.graphs) {
    options.graphs.capture_decode = false;
    options.graphs.capture.prefill_mode = PrefillMode::kOff;
  }
  Rig rig(options);
  std::map<RequestId, RequestOptions> requests;
  std::mt19937 random(11);
  for (int32_t i = 0; i < 150; ++i) {
    const RequestOptions request = grouped_request(i);
    requests[rig.add(request)] = request;
    for (uint32_t k = 0; k < random() % 8; ++k) rig.step();
  }
  rig.run();
  for (const auto& [id, request] : requests) {
    EXPECT_EQ(rig.replies[id].tokens, fake::expected_tokens(request, request.max_tokens));
    EXPECT_EQ(rig.replies[id].num_finishes, 1);
  }
  rig.expect_at_rest();
  const EngineStats stats = rig.engine->stats();
  EXPECT_EQ(stats.prefix_cache_hits > 0, company.prefix_cache);
  EXPECT_EQ(stats.num_preemptions > 0, company.num_pages == 40);
}

INSTANTIATE_TEST_SUITE_P(Companies, CompanyTest,
                         testing::Values(Company{"Alone", 1, 16, 256, false, true},
                                         Company{"Batch", 32, 64, 1024, false, true},
                                         Company{"BatchAhead", 32, 64, 1024, true, true},
                                         Company{"FullCache", 16, 32, 40, false, true},
                                         Company{"FullCacheAhead", 16, 32, 40, true, true},
                                         Company{"Uncached", 32, 64, 1024, false, true, false},
                                         Company{"UncachedAhead", 32, 64, 1024, true, true, false},
                                         Company{"FullUncached", 16, 32, 40, false, true, false},
                                         Company{"FullUncachedAhead", 16, 32, 40, true, true,
                                                 false},
                                         Company{"Eager", 8, 64, 256, false, false},
                                         Company{"SmallStepsAhead", 5, 5, 60, true, true}),
                         [](const auto& tested) { return tested.param.name; });

class AccountingTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(SubmitAhead, AccountingTest, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Ahead" : "InTurn"; });

// Adds, cancels, NaNs, ends and preemptions at random: each request ends once, no page is lost.
TEST_P(AccountingTest, PagesReturnToTheBaseline) {
  RigOptions options;
  options.kv.num_pages = 32;
  options.submit_ahead = GetParam();
  Rig rig(options);
  std::mt19937 random(5);
  std::map<RequestId, RequestOptions> requests;
  std::vector<RequestId> ids;
  for (int32_t round = 0; round < 1000; ++round) {
    RequestOptions request = fake::varied_request(round + 10000, 40, 60);
    if (round % 2 == 0) {  // begins like many others
      const std::vector<int32_t> beginning = fake::make_prompt(14, round % 6);
      request.prompt.insert(request.prompt.begin(), beginning.begin(), beginning.end());
    }
    if (random() % 10 == 0) {
      rig.device().nan_at.insert({request.prompt[0], std::ssize(request.prompt) + random() % 20});
    }
    const RequestId id = rig.add(request);
    requests[id] = request;
    ids.push_back(id);
    if (random() % 4 == 0) static_cast<void>(rig.engine->cancel(ids[random() % ids.size()]));
    for (uint32_t k = 0; k < random() % 12; ++k) rig.step();
    if (random() % 20 == 0) rig.device().nan_at.clear();
  }
  rig.run();
  rig.expect_at_rest();
  const EngineStats stats = rig.engine->stats();
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_GT(stats.prefix_cache_hits, 0);
  EXPECT_GT(stats.prefix_cache_evictions, 0);
  int64_t finished = 0;
  int64_t tokens = 0;
  for (const int64_t count : stats.finished) finished += count;
  EXPECT_EQ(finished, 1000);
  for (const RequestId id : ids) {
    const fake::Reply& reply = rig.replies[id];
    EXPECT_EQ(reply.num_finishes, 1);
    tokens += std::ssize(reply.tokens);
    // What was said before an early end is the beginning of the whole reply.
    std::vector<int32_t> expected = fake::expected_tokens(requests[id], requests[id].max_tokens);
    if (reply.finish == FinishReason::kError || reply.finish == FinishReason::kCancelled) {
      ASSERT_LE(reply.tokens.size(), expected.size());
      expected.resize(reply.tokens.size());
    }
    EXPECT_EQ(reply.tokens, expected);
  }
  EXPECT_EQ(stats.generation_tokens, tokens);
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kError, FinishReason::kCancelled}) {
    EXPECT_GT(stats.finished[static_cast<int32_t>(reason)], 0) << finish_reason_name(reason);
  }
}

// add, cancel, idle and stats from other threads while one steps.
TEST_P(AccountingTest, OtherThreadsAddAndCancelDuringSteps) {
  RigOptions options;
  options.kv.num_pages = 64;
  options.submit_ahead = GetParam();
  Rig rig(options);
  std::atomic<int32_t> adding = 3;
  std::vector<std::thread> clients;
  clients.reserve(3);
  for (int32_t client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (int32_t i = 0; i < 100; ++i) {
        auto id = rig.engine->add(fake::varied_request(client * 1000 + i, 20, 20));
        if (id.ok() && i % 3 == 0) static_cast<void>(rig.engine->cancel(*id));
        static_cast<void>(rig.engine->stats().pages_used);
        static_cast<void>(rig.engine->idle());
      }
      --adding;
    });
  }
  while (adding > 0 || !rig.engine->idle()) rig.step();
  for (std::thread& client : clients) client.join();
  rig.run();
  EXPECT_EQ(rig.replies.size(), 300U);
  rig.expect_at_rest();
}

}  // namespace
}  // namespace encore
