// Tokens and logits equal those of Hugging Face transformers in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugin_under_test.h"
#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

using Json = nlohmann::json;

// How far our logits may be from the reference's, and how close the reference's two best must be
// where we choose another token. Activations of quantised weights are rounded to 16 bits a group of
// 32, those of bf16 weights to bf16; f16 and f32 weights see float32 activations.
struct GoldenCase {
  const char* name;
  float logit_tolerance;
  float gap_tolerance;
};

constexpr float kFloatError = 0.0005F;

float allowed(float tolerance) {
  return std::max(tolerance, plugin_arguments().reference_tolerance);
}

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name; }

Json read_json(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return Json::parse(file);
}

class Goldens : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    golden_ = read_json(goldens_folder() + "/" + GetParam().name + ".json");
    const std::string model = golden_["model"];
    path_ = model.starts_with("SmolLM2") ? smollm2_path() : goldens_folder() + "/" + model;
    if (path_.empty()) GTEST_SKIP() << "ENCORE_TEST_MODELS names no folder with SmolLM2's file";
    if (const std::string reason = why_not_shared(path_); !reason.empty()) GTEST_SKIP() << reason;
  }

  RunnersOptions options() const {
    RunnersOptions options = small_options();
    options.graphs.capture.limits.max_tokens = 512;
    options.graphs.capture.limits.max_context = 512;
    options.graphs.capture.prefill_buckets = {64, 256};
    return options;
  }

  Json golden_;
  std::string path_;
};

// Greedy tokens agree, or first differ where the reference's two best logits are closer than
// `gap_tolerance`.
void expect_greedy_tokens(const std::vector<int32_t>& found, const Json& golden_case,
                          float gap_tolerance) {
  const auto expected = golden_case["greedy_ids"].get<std::vector<int32_t>>();
  const auto difference = std::mismatch(found.begin(), found.end(), expected.begin());
  if (difference.first == found.end()) return;
  const auto step = static_cast<size_t>(difference.first - found.begin());
  const float gap = golden_case["steps"]["top1_logits"][step].get<float>() -
                    golden_case["steps"]["top2_logits"][step].get<float>();
  EXPECT_LT(gap, gap_tolerance) << "step " << step << " gives token " << found[step]
                                << " where the reference gives " << expected[step];
  std::printf("  %s: first difference at step %zu, gap %.4f\n",
              golden_case["name"].get<std::string>().c_str(), step, static_cast<double>(gap));
}

// The largest difference between our row and what the golden has of it.
float row_error(const std::vector<float>& found, const Json& row, const Json& probe_ids) {
  float error = 0.0F;
  const auto compare = [&](size_t id, const Json& value) {
    error = std::max(error, std::fabs(found[id] - value.get<float>()));
  };
  if (row.contains("logits")) {
    for (size_t id = 0; id < row["logits"].size(); ++id) compare(id, row["logits"][id]);
    return error;
  }
  for (size_t i = 0; i < row["top_ids"].size(); ++i) {
    compare(row["top_ids"][i].get<size_t>(), row["top_logits"][i]);
  }
  for (size_t i = 0; i < probe_ids.size(); ++i) {
    compare(probe_ids[i].get<size_t>(), row["probe_logits"][i]);
  }
  return error;
}

TEST_P(Goldens, GreedyTokensEqualTransformers) {
  if (kSanitized && path_ == smollm2_path()) GTEST_SKIP() << "minutes under a sanitizer";
  TestModel& model = test_model(path_);
  const Runners runners = make_runners(model, options());
  StepDriver driver(model.spec(), *runners.kv);
  for (const Json& golden_case : golden_["cases"]) {
    SCOPED_TRACE(golden_case["name"].get<std::string>());
    const auto prompt = golden_case["prompt_ids"].get<std::vector<int32_t>>();
    expect_greedy_tokens(
        greedy(driver, *runners.graphs.prefill.runner, *runners.graphs.decode.runner, prompt, 64),
        golden_case, allowed(GetParam().gap_tolerance));
  }
}

TEST_P(Goldens, LogitsAreWithinTheStatedError) {
  TestModel& model = test_model(path_);
  const Runners runners = make_runners(model, options());
  StepDriver driver(model.spec(), *runners.kv);
  float worst = 0.0F;
  for (const Json& golden_case : golden_["cases"]) {
    SCOPED_TRACE(golden_case["name"].get<std::string>());
    auto tokens = golden_case["prompt_ids"].get<std::vector<int32_t>>();
    const auto reply = golden_case["greedy_ids"].get<std::vector<int32_t>>();
    tokens.insert(tokens.end(), reply.begin(), reply.end());
    Sequence sequence = driver.start(tokens);
    for (const Json& row : golden_case["rows"]) {
      // The reference's own tokens lead up to the row, whatever we would have sampled.
      const int32_t count = row["position"].get<int32_t>() + 1 - sequence.cached;
      const StepResult step = driver.run(*runners.graphs.prefill.runner, {{&sequence, count}});
      const float error = row_error(step.logits[0], row, golden_.value("probe_ids", Json::array()));
      EXPECT_LE(error, allowed(GetParam().logit_tolerance)) << "position " << row["position"];
      worst = std::max(worst, error);
    }
    driver.finish(sequence);
  }
  std::printf("  %s: max logit error %.5f, stated %.5f\n", GetParam().name,
              static_cast<double>(worst), static_cast<double>(allowed(GetParam().logit_tolerance)));
  RecordProperty("max_logit_error", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(
    Transformers, Goldens,
    ::testing::Values(GoldenCase{"smollm2", 0.02F, 0.02F}, GoldenCase{"tiny_llama", 0.2F, 0.3F},
                      GoldenCase{"tiny_llama_f16", kFloatError, kFloatError},
                      GoldenCase{"tiny_llama_linear", kFloatError, kFloatError},
                      GoldenCase{"tiny_llama_q8_0", 0.005F, 0.005F},
                      GoldenCase{"tiny_llama_sharded", 0.2F, 0.3F},
                      GoldenCase{"tiny_llama_tied_llama3", kFloatError, kFloatError},
                      GoldenCase{"tiny_mistral", 0.2F, 0.3F}, GoldenCase{"tiny_qwen2", 0.2F, 0.3F},
                      GoldenCase{"tiny_qwen3", 0.2F, 0.3F},
                      GoldenCase{"tiny_qwen3_f16", kFloatError, kFloatError},
                      GoldenCase{"tiny_qwen3_q8_0", 0.005F, 0.005F}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(GoldenRope, ScaledFrequenciesHoldAtPosition9000) {
  const Json golden = read_json(goldens_folder() + "/rope_long.json");
  TestModel& model = test_model(goldens_folder() + "/" + golden["model"].get<std::string>());
  RunnersOptions options = small_options();
  options.num_pages = 600;
  options.graphs.capture.limits.max_tokens = 1024;
  options.graphs.capture.limits.max_context = 9600;
  options.graphs.capture.prefill_buckets = {1024};
  const Runners runners = make_runners(model, options);
  StepDriver driver(model.spec(), *runners.kv);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < golden["num_tokens"].get<int64_t>(); ++i) {
    tokens.push_back(static_cast<int32_t>((i * i + 7 * i) % 251));
  }
  Sequence sequence = driver.start(tokens);
  for (const Json& row : golden["cases"]) {
    const int32_t end = row["position"].get<int32_t>() + 1;
    StepResult step;
    while (sequence.cached < end) {
      const int32_t count = std::min(1024, end - sequence.cached);
      step = driver.run(*runners.graphs.prefill.runner, {{&sequence, count}});
    }
    EXPECT_LE(row_error(step.logits[0], row, Json::array()), allowed(0.002F))
        << "position " << row["position"];
  }
}

}  // namespace
}  // namespace encore::testing
