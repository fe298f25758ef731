// A reply does not depend on its company: 500 requests on the backend's own numbers, greedy and
// seeded, have the same tokens alone and in every company that the engine can arrange.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "plugin_under_test.h"
#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

struct Company {
  const char* name;
  int32_t max_requests = 32;
  int32_t max_tokens = 128;  // a step
  int32_t num_pages = 512;   // of 16 tokens
  bool graphs = true;
  bool prefix_cache = true;
  bool submit_ahead = false;
  int32_t arrivals_a_step = 500;  // few: prefills meet decodes in mixed steps
};

// Prompts of 1 to 120 tokens, two of three with one of five beginnings; replies of 1 to 60.
std::vector<RequestOptions> make_requests(int32_t count, int64_t vocab_size) {
  std::vector<RequestOptions> requests(count);
  for (int32_t i = 0; i < count; ++i) {
    const std::vector<int32_t> random = random_tokens(1000 + i, 8, 1 << 20);
    RequestOptions& request = requests[i];
    if (i % 3 != 0) request.prompt = random_tokens(i % 5, 16 + 13 * (i % 5), vocab_size);
    const std::vector<int32_t> tail = random_tokens(i, 1 + random[0] % 52, vocab_size);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
    request.max_tokens = 1 + random[1] % 60;
    request.ignore_eos = true;
    if (i % 2 == 0) continue;
    request.sampling.temperature = 0.5F + 0.1F * static_cast<float>(random[2] % 8);
    request.sampling.top_p = 0.9F;
    request.sampling.seed = static_cast<uint64_t>(random[3]);
  }
  return requests;
}

class Company500Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (plugin_arguments().logit_tolerance > 0.0F) {
      GTEST_SKIP() << "this device rounds differently from mode to mode";
    }
    requests_ = make_requests(kSanitized ? 60 : 500, model_.spec().vocab_size);
  }

  // Runs all requests and returns their tokens. Fills `stats_`.
  std::vector<std::vector<int32_t>> run(const Company& company) {
    RunnersOptions options = small_options();
    options.num_pages = company.num_pages;
    options.graphs.capture.limits.max_requests = company.max_requests;
    options.graphs.capture.limits.max_tokens = company.max_tokens;
    options.graphs.capture.prefill_buckets = {};
    options.graphs.capture.decode_buckets = {};
    if (!company.graphs) {
      options.graphs.capture.prefill_mode = PrefillMode::kOff;
      options.graphs.capture_decode = false;
    }
    Runners runners = make_runners(model_, options);
    EngineOptions engine_options;
    engine_options.limits = options.graphs.capture.limits;
    engine_options.num_valid_tokens = static_cast<int32_t>(model_.spec().vocab_size);
    engine_options.prefix_cache = company.prefix_cache;
    engine_options.submit_ahead = company.submit_ahead;
    auto engine = Engine::create(*model_.model, *runners.kv, std::move(runners.graphs),
                                 std::move(engine_options));
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    return engine.ok() ? drive(**engine, company) : std::vector<std::vector<int32_t>>();
  }

  TestModel& model_ = test_model(goldens_folder() + "/models/tiny_llama");
  std::vector<RequestOptions> requests_;
  EngineStats stats_;

 private:
  std::vector<std::vector<int32_t>> drive(Engine& engine, const Company& company) {
    std::vector<std::vector<int32_t>> replies(requests_.size());
    std::map<RequestId, size_t> numbers;
    std::vector<RequestEvent> events;
    size_t next = 0;
    while (next < requests_.size() || !engine.idle()) {
      for (int32_t i = 0; i < company.arrivals_a_step && next < requests_.size(); ++i, ++next) {
        auto id = engine.add(requests_[next]);
        EXPECT_TRUE(id.ok()) << id.status().to_string();
        if (id.ok()) numbers[*id] = next;
      }
      const auto stepped = engine.step(events);
      EXPECT_TRUE(stepped.ok()) << stepped.status().to_string();
      if (!stepped.ok()) break;
      for (const RequestEvent& event : events) {
        if (event.token >= 0) replies[numbers[event.request]].push_back(event.token);
        EXPECT_TRUE(!event.finished() || event.finish == FinishReason::kLength) << event.message;
      }
    }
    stats_ = engine.stats();
    EXPECT_EQ(stats_.pages_used, 0);
    EXPECT_EQ(stats_.pages_cached + stats_.pages_free, stats_.num_pages);
    return replies;
  }
};

TEST_F(Company500Test, RepliesAreTheSameAloneAndInEveryCompany) {
  const std::vector<std::vector<int32_t>> alone =
      run({.name = "alone", .max_requests = 1, .graphs = false, .prefix_cache = false});
  for (size_t i = 0; i < requests_.size(); ++i) {
    ASSERT_EQ(std::ssize(alone[i]), requests_[i].max_tokens);
  }
  const Company companies[] = {
      {.name = "batch of 32, eager, no prefix cache", .graphs = false, .prefix_cache = false},
      {.name = "batch of 32, no prefix cache", .prefix_cache = false},
      {.name = "batch of 32"},
      {.name = "batch of 32, ahead", .submit_ahead = true},
      {.name = "small chunks", .max_tokens = 36},
      {.name = "mixed steps, ahead", .max_tokens = 48, .submit_ahead = true, .arrivals_a_step = 2},
      {.name = "full KV cache, no prefix cache", .num_pages = 24, .prefix_cache = false},
      {.name = "full KV cache", .num_pages = 24},
      {.name = "everything", .max_tokens = 40, .num_pages = 24, .submit_ahead = true},
  };
  for (const Company& company : companies) {
    SCOPED_TRACE(company.name);
    const std::vector<std::vector<int32_t>> replies = run(company);
    ASSERT_EQ(replies.size(), alone.size());
    int32_t num_different = 0;
    for (size_t i = 0; i < alone.size(); ++i) {
      if (replies[i] != alone[i] && ++num_different == 1) {
        EXPECT_EQ(replies[i], alone[i]) << "request " << i;
      }
    }
    EXPECT_EQ(num_different, 0);
    EXPECT_EQ(stats_.prefix_cache_hits > 0, company.prefix_cache);
    EXPECT_EQ(stats_.num_preemptions > 0, company.num_pages < 100);
    EXPECT_EQ(stats_.steps_ahead > 0, company.submit_ahead);
  }
}

}  // namespace
}  // namespace encore::testing
