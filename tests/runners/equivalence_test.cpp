// Eager, prefill graph (full and breakable) and decode graph compute the same thing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugin_under_test.h"
#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

// One request of a step: tokens cached beforehand, tokens brought now.
struct Shape {
  int32_t cached = 0;
  int32_t fresh = 0;
};

// Runs one step of those shapes by `runner`, after filling the caches eagerly, on fresh pages.
StepResult run_shapes(TestModel& model, const Runners& runners, Runner& runner,
                      const std::vector<Shape>& shapes, std::vector<uint64_t>* hashes = nullptr) {
  StepDriver driver(model.spec(), *runners.kv);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < shapes.size(); ++i) {
    sequences.push_back(driver.start(
        random_tokens(i + 1, shapes[i].cached + shapes[i].fresh, model.spec().vocab_size)));
    if (shapes[i].cached > 0) {
      driver.run(*runners.graphs.eager.runner, {{&sequences[i], shapes[i].cached, false}});
    }
  }
  std::vector<Work> work;
  for (size_t i = 0; i < shapes.size(); ++i) work.push_back({&sequences[i], shapes[i].fresh});
  StepResult result = driver.run(runner, work);
  if (hashes != nullptr) *hashes = driver.page_hashes();
  return result;
}

void expect_same_step(const StepResult& found, const StepResult& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.row_status, expected.row_status);
  ASSERT_EQ(found.logits.size(), expected.logits.size());
  for (size_t row = 0; row < found.logits.size(); ++row) {
    SCOPED_TRACE("row " + std::to_string(row));
    expect_same_logits(found.logits[row], expected.logits[row]);
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names = {"tiny_llama", "tiny_llama_tied_llama3", "tiny_qwen2",
                                    "tiny_qwen3", "tiny_llama.q8_0.gguf"};
  if (!kSanitized) names.emplace_back("smollm2");  // minutes; its logits are still tested
  return names;
}

class RunnerEquivalence : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = GetParam() == "smollm2" ? smollm2_path() : goldens_folder() + "/models/" + GetParam();
    if (path_.empty()) GTEST_SKIP() << "ENCORE_TEST_MODELS names no folder with SmolLM2's file";
    if (const std::string reason = why_not_shared(path_); !reason.empty()) GTEST_SKIP() << reason;
  }
  TestModel& model() { return test_model(path_); }

 private:
  std::string path_;
};

// b-1, b, b+1 of each bucket, as one request and as several, with and without cached prefixes, and
// mixed with decodes.
std::vector<std::vector<Shape>> prefill_steps() {
  std::vector<std::vector<Shape>> steps;
  for (const int32_t bucket : {16, 32, 64}) {
    for (const int32_t total : {bucket - 1, bucket, bucket + 1}) {
      steps.push_back({{0, total}});
      steps.push_back({{37, total}});
      steps.push_back({{0, 3}, {5, total - 3}});
      steps.push_back({{0, total - 8}, {16, 1}, {33, 1}, {0, 4}, {15, 1}, {1, 1}});
    }
  }
  steps.push_back({{0, 1}});
  steps.push_back({{0, 128}});
  steps.push_back({{0, 3}, {0, 17}, {0, 31}});
  return steps;
}

TEST_P(RunnerEquivalence, PrefillGraphsEqualEagerAtBucketEdges) {
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    RunnersOptions options = small_options();
    options.graphs.capture.prefill_mode = mode;
    const Runners runners = make_runners(model(), options);
    for (const auto& shapes : prefill_steps()) {
      SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)) + ", first request " +
                   std::to_string(shapes[0].cached) + "+" + std::to_string(shapes[0].fresh) +
                   " of " + std::to_string(shapes.size()));
      const StepResult eager = run_shapes(model(), runners, *runners.graphs.eager.runner, shapes);
      const StepResult graph = run_shapes(model(), runners, *runners.graphs.prefill.runner, shapes);
      expect_same_step(graph, eager);
      if (HasFatalFailure()) return;
    }
    EXPECT_TRUE(model().model->check_guards().ok());
  }
}

TEST_P(RunnerEquivalence, DecodeGraphEqualsEagerForEveryBatchSize) {
  const Runners runners = make_runners(model(), small_options());
  for (int32_t batch = 1; batch <= 8; ++batch) {
    SCOPED_TRACE("batch " + std::to_string(batch));
    std::vector<Shape> shapes;
    shapes.reserve(batch);
    for (int32_t i = 0; i < batch; ++i) shapes.push_back({15 + 7 * i, 1});
    const StepResult eager = run_shapes(model(), runners, *runners.graphs.eager.runner, shapes);
    const StepResult graph = run_shapes(model(), runners, *runners.graphs.decode.runner, shapes);
    expect_same_step(graph, eager);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(model().model->check_guards().ok());
}

TEST_P(RunnerEquivalence, DecodeGraphEqualsPrefillGraph) {
  const Runners runners = make_runners(model(), small_options());
  const std::vector<Shape> shapes = {{1, 1}, {16, 1}, {31, 1}};
  expect_same_step(run_shapes(model(), runners, *runners.graphs.decode.runner, shapes),
                   run_shapes(model(), runners, *runners.graphs.prefill.runner, shapes));
}

TEST_P(RunnerEquivalence, HoldsForEveryCacheTypeAndPageSize) {
  const std::vector<Shape> prefill = {{0, 40}, {50, 5}};
  const std::vector<Shape> decode = {{63, 1}, {64, 1}, {5, 1}};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int32_t page_size : {16, 32, 64}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + ", pages of " + std::to_string(page_size));
      RunnersOptions options = small_options();
      options.kv_dtype = dtype;
      options.page_size = page_size;
      const Runners runners = make_runners(model(), options);
      expect_same_step(run_shapes(model(), runners, *runners.graphs.prefill.runner, prefill),
                       run_shapes(model(), runners, *runners.graphs.eager.runner, prefill));
      expect_same_step(run_shapes(model(), runners, *runners.graphs.decode.runner, decode),
                       run_shapes(model(), runners, *runners.graphs.eager.runner, decode));
    }
  }
}

TEST_P(RunnerEquivalence, CaptureOrderDoesNotMatter) {
  const std::vector<Shape> prefill = {{0, 30}, {20, 3}};
  const std::vector<Shape> decode = {{30, 1}, {5, 1}};
  std::vector<StepResult> prefilled;
  std::vector<StepResult> decoded;
  for (const bool decode_first : {false, true}) {
    RunnersOptions options = small_options();
    options.graphs.decode_first = decode_first;
    const Runners runners = make_runners(model(), options);
    prefilled.push_back(run_shapes(model(), runners, *runners.graphs.prefill.runner, prefill));
    decoded.push_back(run_shapes(model(), runners, *runners.graphs.decode.runner, decode));
  }
  expect_same_step(prefilled[1], prefilled[0]);
  expect_same_step(decoded[1], decoded[0]);
}

TEST_P(RunnerEquivalence, PoisonedBuffersChangeNothing) {
  const std::vector<Shape> prefill = {{0, 13}, {21, 2}};
  const std::vector<Shape> decode = {{30, 1}, {5, 1}, {17, 1}};
  const Runners clean = make_runners(model(), small_options());
  const StepResult clean_prefill =
      run_shapes(model(), clean, *clean.graphs.prefill.runner, prefill);
  const StepResult clean_decode = run_shapes(model(), clean, *clean.graphs.decode.runner, decode);
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    RunnersOptions options = small_options();
    options.graphs.capture.poison = true;
    options.graphs.capture.prefill_mode = mode;
    const Runners poisoned = make_runners(model(), options);
    expect_same_step(run_shapes(model(), poisoned, *poisoned.graphs.prefill.runner, prefill),
                     clean_prefill);
    expect_same_step(run_shapes(model(), poisoned, *poisoned.graphs.decode.runner, decode),
                     clean_decode);
  }
}

TEST_P(RunnerEquivalence, ChunkedPrefillEqualsWholePrefill) {
  const Runners runners = make_runners(model(), small_options());
  const auto tokens = random_tokens(9, 100, model().spec().vocab_size);
  StepDriver driver(model().spec(), *runners.kv);
  Sequence whole = driver.start(tokens);
  const StepResult expected = driver.run(*runners.graphs.prefill.runner, {{&whole, 100}});
  for (const int32_t chunk : {1, 7, 16, 64}) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    Sequence chunked = driver.start(tokens);
    StepResult last;
    while (chunked.cached < 100) {
      const int32_t count = std::min(chunk, 100 - chunked.cached);
      last = driver.run(*runners.graphs.prefill.runner, {{&chunked, count}});
    }
    expect_same_step(last, expected);
    driver.finish(chunked);
  }
}

TEST_P(RunnerEquivalence, SampledTokenFeedsTheNextStepWithoutTheHost) {
  const Runners runners = make_runners(model(), small_options());
  StepDriver driver(model().spec(), *runners.kv);
  const auto prompt = random_tokens(4, 20, model().spec().vocab_size);
  const std::vector<int32_t> expected =
      greedy(driver, *runners.graphs.prefill.runner, *runners.graphs.decode.runner, prompt, 6);
  Sequence sequence = driver.start(prompt);
  std::vector<int32_t> found = {
      driver.run(*runners.graphs.prefill.runner, {{&sequence, 20}}).tokens[0]};
  for (int32_t step = 1; step < 6; ++step) {
    sequence.tokens.push_back(-1);  // row 0 of the step before
    found.push_back(driver.run(*runners.graphs.decode.runner, {{&sequence, 1}}).tokens[0]);
  }
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Models, RunnerEquivalence, ::testing::ValuesIn(model_names()),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (c == '.') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace encore::testing
