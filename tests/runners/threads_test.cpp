// Runners of different KV caches may run on different threads. They share the model's device, so a
// step of one must not come between the ops of another's, nor into a capture.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

constexpr int32_t kPromptTokens = 24;
constexpr int32_t kDecodeSteps = 4;
constexpr int32_t kRequests = kSanitized ? 5 : 30;

using Logits = std::vector<std::vector<float>>;

// A request with fixed tokens, so that each step's input is known whatever was sampled.
Logits run_request(const TestModel& model, const Runners& runners, Runner& prefill, Runner& decode,
                   uint64_t seed) {
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence =
      driver.start(random_tokens(seed, kPromptTokens + kDecodeSteps, model.spec().vocab_size));
  Logits logits = driver.run(prefill, {{&sequence, kPromptTokens}}).logits;
  for (int32_t step = 0; step < kDecodeSteps; ++step) {
    logits.push_back(driver.run(decode, {{&sequence, 1}}).logits.at(0));
  }
  return logits;
}

Logits run_eagerly(const TestModel& model, const Runners& runners) {
  Runner& eager = *runners.graphs.eager.runner;
  return run_request(model, runners, eager, eager, 41);
}

Logits run_by_graphs(const TestModel& model, const Runners& runners) {
  return run_request(model, runners, *runners.graphs.prefill.runner, *runners.graphs.decode.runner,
                     42);
}

TEST(Threads, RunnersOfDifferentCachesShareAModel) {
  TestModel& model = test_model(goldens_folder() + "/models/tiny_llama");
  const Runners eager = make_runners(model, small_options());
  const Runners graphs = make_runners(model, small_options());
  const Logits eager_alone = run_eagerly(model, eager);
  const Logits graphs_alone = run_by_graphs(model, graphs);
  std::atomic<int> serving = 2;
  const std::jthread first([&] {
    for (int32_t i = 0; i < kRequests; ++i) EXPECT_EQ(run_eagerly(model, eager), eager_alone);
    --serving;
  });
  const std::jthread second([&] {
    for (int32_t i = 0; i < kRequests; ++i) EXPECT_EQ(run_by_graphs(model, graphs), graphs_alone);
    --serving;
  });
  // A third cache comes and goes meanwhile.
  do {
    const Runners third = make_runners(model, small_options());
    EXPECT_EQ(run_by_graphs(model, third), graphs_alone);
  } while (serving > 0);
}

}  // namespace
}  // namespace encore::testing
