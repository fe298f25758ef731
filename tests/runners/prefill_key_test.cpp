// Fault G3: a prefill graph that knows only the token count.
#include <gtest/gtest.h>

#include <vector>

#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

class PrefillKey : public ::testing::Test {
 protected:
  TestModel& model_ = test_model(goldens_folder() + "/models/tiny_llama");

  // 16 greedy tokens of `prompt` alone, from a cold cache, eagerly.
  std::vector<int32_t> expected(const std::vector<int32_t>& prompt) {
    const Runners runners = make_runners(model_, small_options());
    StepDriver driver(model_.spec(), *runners.kv);
    Runner& eager = *runners.graphs.eager.runner;
    return greedy(driver, eager, eager, prompt, 16);
  }
};

std::vector<int32_t> reply_of(const Sequence& sequence, size_t prompt_size) {
  return {sequence.tokens.begin() + static_cast<std::ptrdiff_t>(prompt_size),
          sequence.tokens.end()};
}

TEST_F(PrefillKey, CachedPrefixIsAttended) {
  const auto prompt = random_tokens(3, 120, model_.spec().vocab_size);
  const Runners runners = make_runners(model_, small_options());
  StepDriver driver(model_.spec(), *runners.kv);
  Sequence sequence = driver.start(prompt);
  driver.run(*runners.graphs.prefill.runner, {{&sequence, 100, false}});
  driver.run_and_append(*runners.graphs.prefill.runner, {{&sequence, 20}});
  for (int32_t step = 1; step < 16; ++step) {
    driver.run_and_append(*runners.graphs.decode.runner, {{&sequence, 1}});
  }
  EXPECT_EQ(reply_of(sequence, 120), expected(prompt));
}

TEST_F(PrefillKey, ContextLimitBelowABucketServesSeveralRequests) {
  RunnersOptions options = small_options();
  options.graphs.capture.limits.max_context = 64;
  options.graphs.capture.limits.max_tokens = 256;
  options.graphs.capture.prefill_buckets = {256};
  const Runners runners = make_runners(model_, options);
  EXPECT_EQ(runners.graphs.prefill.report.buckets[0].reason, Reason::kNone);
  StepDriver driver(model_.spec(), *runners.kv);
  std::vector<Sequence> sequences;
  std::vector<Work> work;
  for (uint64_t i = 0; i < 4; ++i) {
    sequences.push_back(driver.start(random_tokens(20 + i, 60, model_.spec().vocab_size)));
  }
  work.reserve(sequences.size());
  for (Sequence& sequence : sequences) work.push_back({&sequence, 60});
  const StepResult step = driver.run(*runners.graphs.prefill.runner, work);
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(step.tokens[i], expected(random_tokens(20 + i, 60, model_.spec().vocab_size))[0]);
  }
}

TEST_F(PrefillKey, EachRequestOfAStepEqualsItselfAlone) {
  RunnersOptions options = small_options();
  options.graphs.capture.prefill_buckets = {64};
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    options.graphs.capture.prefill_mode = mode;
    const Runners runners = make_runners(model_, options);
    StepDriver driver(model_.spec(), *runners.kv);
    std::vector<Sequence> sequences;
    std::vector<Work> work;
    for (const int32_t length : {3, 17, 31}) {
      sequences.push_back(driver.start(
          random_tokens(static_cast<uint64_t>(length), length, model_.spec().vocab_size)));
    }
    work.reserve(sequences.size());
    for (Sequence& sequence : sequences) {
      work.push_back({&sequence, static_cast<int32_t>(sequence.tokens.size())});
    }
    driver.run_and_append(*runners.graphs.prefill.runner, work);
    for (Work& item : work) item.count = 1;
    for (int32_t step = 1; step < 16; ++step) {
      driver.run_and_append(*runners.graphs.decode.runner, work);
    }
    size_t index = 0;
    for (const int32_t length : {3, 17, 31}) {
      EXPECT_EQ(
          reply_of(sequences[index++], static_cast<size_t>(length)),
          expected(random_tokens(static_cast<uint64_t>(length), length, model_.spec().vocab_size)))
          << "length " << length;
    }
  }
}

}  // namespace
}  // namespace encore::testing
