// The kit's reference against what transformers computes (tests/goldens).
#include "reference_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "logit_error.h"
#include "model/model_files.h"

namespace encore::check {
namespace {

// The goldens' logits have four decimals, and their own float32 error.
constexpr double kMaxError = 1e-4;

class ReferenceGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceGoldens, LogitsAreThoseOfTransformers) {
  const std::string folder = ENCORE_GOLDENS_FOLDER;
  std::ifstream file(folder + "/" + GetParam() + ".json");
  ASSERT_TRUE(file.good());
  const auto golden = nlohmann::json::parse(file);
  const auto files = open_model(folder + "/" + golden.at("model").get<std::string>());
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  const ReferenceModel reference(files->spec, *files->weights);
  double worst = 0.0;
  int num_rows = 0;
  for (const auto& one : golden.at("cases")) {
    auto tokens = one.at("prompt_ids").get<std::vector<int32_t>>();
    const auto greedy = one.at("greedy_ids").get<std::vector<int32_t>>();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    std::vector<int32_t> rows;
    for (const auto& row : one.at("rows")) rows.push_back(row.at("position"));
    const ReferencePass pass = reference.forward(tokens, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto expected = one.at("rows")[i].at("logits").get<std::vector<double>>();
      ASSERT_EQ(pass.logits[i].size(), expected.size());
      for (size_t token = 0; token < expected.size(); ++token) {
        worst = std::max(worst, std::fabs(pass.logits[i][token] - expected[token]));
      }
      ++num_rows;
    }
  }
  EXPECT_GE(num_rows, 10);
  EXPECT_LT(worst, kMaxError);
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceGoldens,
                         ::testing::Values("tiny_llama", "tiny_llama_f16", "tiny_llama_q8_0",
                                           "tiny_llama_tied_llama3", "tiny_llama_linear",
                                           "tiny_llama_sharded", "tiny_mistral", "tiny_qwen2",
                                           "tiny_qwen3", "tiny_qwen3_f16", "tiny_qwen3_q8_0"),
                         [](const auto& param) { return std::string(param.param); });

TEST(RoundToBits, RoundsTheMantissa) {
  EXPECT_EQ(round_to_bits(1.0 + 0x1p-8, 8), 1.0);  // a tie goes to even
  EXPECT_EQ(round_to_bits(1.0 + 3 * 0x1p-8, 8), 1.0 + 0x1p-6);
  EXPECT_EQ(round_to_bits(-0.3, 24), static_cast<double>(-0.3F));
  EXPECT_EQ(round_to_bits(0.3, 0), 0.3);
}

}  // namespace
}  // namespace encore::check
