// Counts every allocation of the process: a decode step makes none.
#include <gtest/gtest.h>

#include "../allocation_counter.h"
#include "engine/engine.h"
#include "engine_rig.h"

namespace encore {
namespace {

// Answers at once, allocates nothing, and stands for every kind of runner.
class NullRunner : public Runner {
 public:
  explicit NullRunner(RunnerKind kind) : kind_(kind) {}
  RunnerKind kind() const override { return kind_; }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput&) const override {
    const bool decode = batch.num_tokens() == batch.num_requests();
    if (kind_ == RunnerKind::kDecodeGraph && !decode) return {Reason::kNotDecode, 0};
    return {Reason::kNone, kind_ == RunnerKind::kEager ? 0 : batch.num_tokens()};
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    for (size_t row = 0; row < output.tokens.size(); ++row) {
      output.tokens[row] = static_cast<int32_t>((batch.sampling[row].position * 7) % 60);
      output.row_status[row] = 0;
    }
    for (float& logprob : output.logprobs) logprob = -1.0F;
    return ++ticket_;
  }
  Status wait(Ticket, int64_t) override { return {}; }

 private:
  RunnerKind kind_;
  Ticket ticket_ = 0;
};

GraphsCapture null_graphs() {
  GraphsCapture graphs;
  graphs.eager.runner = std::make_shared<NullRunner>(RunnerKind::kEager);
  graphs.prefill.runner = std::make_shared<NullRunner>(RunnerKind::kPrefillGraph);
  graphs.decode.runner = std::make_shared<NullRunner>(RunnerKind::kDecodeGraph);
  return graphs;
}

struct AllocationCase {
  const char* name;
  bool ahead;
  bool prefix_cache;
  int32_t num_pages;
};

class AllocationTest : public testing::TestWithParam<AllocationCase> {
 protected:
  std::unique_ptr<Engine> make_engine(const EngineOptions& options) {
    return std::move(Engine::create(model_, kv_, null_graphs(), options)).value();
  }

  fake::FakeModel model_;
  fake::FakeKv kv_{{.num_pages = GetParam().num_pages, .page_size = 16}};
};

// 64 requests of 908 tokens take 3648 pages.
INSTANTIATE_TEST_SUITE_P(Engines, AllocationTest,
                         testing::Values(AllocationCase{"InTurn", false, true, 4096},
                                         AllocationCase{"Ahead", true, true, 4096},
                                         AllocationCase{"AheadEvicting", true, true, 3712},
                                         AllocationCase{"AheadUncached", true, false, 4096}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(AllocationTest, DecodeStepsAllocateNothing) {
  EngineOptions options;
  options.limits = {.max_requests = 64,
                    .max_tokens = 1024,
                    .max_context = 1024,
                    .max_logprobs = 0,
                    .max_history = 65536,
                    .max_biases = 64};
  options.num_valid_tokens = 64;
  options.make_text = [] { return std::make_unique<fake::FakeText>(); };
  options.submit_ahead = GetParam().ahead;
  options.prefix_cache = GetParam().prefix_cache;
  const auto engine = make_engine(options);
  std::vector<RequestEvent> events;
  for (int32_t i = 0; i < 64; ++i) {  // leaves pages behind
    RequestOptions request;
    request.prompt = fake::make_prompt(900, 1000 + i);
    request.max_tokens = 1;
    ASSERT_TRUE(engine->add(request).ok());
  }
  while (!engine->idle()) ASSERT_TRUE(engine->step(events).ok());
  for (int32_t i = 0; i < 64; ++i) {
    RequestOptions request;
    request.prompt = fake::make_prompt(8, i);
    request.max_tokens = 900;
    request.stop = {"never in there"};
    request.sampling.repetition_penalty = 1.1F;
    request.sampling.logit_bias = {{3, 1.0F}};
    ASSERT_TRUE(engine->add(request).ok());
  }
  for (int32_t i = 0; i < 50; ++i) ASSERT_TRUE(engine->step(events).ok());
  ASSERT_GT(num_allocations, 0) << "nothing is being counted";
  const int64_t before_ns = engine->stats().total_costs.host_ns();
  const int64_t steps_before = engine->stats().num_steps;
  const int64_t allocations_before = num_allocations;
  for (int32_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(engine->step(events).ok());
    ASSERT_EQ(events.size(), 64U);
  }
  EXPECT_EQ(num_allocations - allocations_before, 0);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.num_preemptions, 0);
  // Pages filled meanwhile took the place of those left behind.
  EXPECT_EQ(stats.prefix_cache_evictions > 1000, GetParam().prefix_cache);
  const int64_t steps = stats.num_steps - steps_before;
  RecordProperty("host_ns_per_step",
                 std::to_string((stats.total_costs.host_ns() - before_ns) / steps));
}

// Nothing of a request is left when it has ended, however it did.
TEST_P(AllocationTest, FinishedRequestsLeaveNothing) {
  EngineOptions options;
  options.limits = {.max_requests = 8, .max_tokens = 64, .max_context = 256, .max_history = 4096};
  options.num_valid_tokens = 64;
  options.make_text = [] { return std::make_unique<fake::FakeText>(); };
  options.submit_ahead = GetParam().ahead;
  options.prefix_cache = GetParam().prefix_cache;
  const auto engine = make_engine(options);
  std::vector<RequestEvent> events;
  const auto run_requests = [&] {
    for (int32_t i = 0; i < 200; ++i) {
      RequestOptions request;
      request.prompt = fake::make_prompt(8, i);
      request.max_tokens = 1 + i % 20;
      request.sampling.frequency_penalty = 0.5F;
      const auto id = engine->add(request);
      ASSERT_TRUE(id.ok());
      ASSERT_TRUE(engine->step(events).ok());
      if (i % 3 == 0) static_cast<void>(engine->cancel(*id));  // some have ended already
    }
    while (!engine->idle()) ASSERT_TRUE(engine->step(events).ok());
  };
  run_requests();
  const int64_t before = num_allocations - num_frees;
  for (int32_t round = 0; round < 10; ++round) run_requests();
  EXPECT_NEAR(static_cast<double>(num_allocations - num_frees - before), 0.0, 8.0);
}

}  // namespace
}  // namespace encore
