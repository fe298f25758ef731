// The kit's view of sampling, by numbers worked out by hand; and its weights' encodings.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "reference_sampler.h"
#include "weight_codec.h"

namespace encore::check {
namespace {

const double kLog2 = std::log(2.0);

TEST(ReferenceSampler, TemperatureDividesLogits) {
  const std::vector<double> logits = {kLog2, 0.0, -2000.0};
  const std::vector<double> at_1 = probabilities_of(logits, 1.0);
  EXPECT_NEAR(at_1[0], 2.0 / 3.0, 1e-12);
  EXPECT_EQ(at_1[2], 0.0);
  EXPECT_NEAR(probabilities_of(logits, 0.5)[0], 0.8, 1e-12);
  EXPECT_NEAR(log_softmax(logits)[1], std::log(1.0 / 3.0), 1e-12);
}

TEST(ReferenceSampler, PenaltiesLookAtPromptAndReply) {
  RowSampling sampling;
  sampling.repetition_penalty = 2.0F;
  sampling.presence_penalty = 0.5F;
  sampling.frequency_penalty = 0.25F;
  const std::vector<TokenBias> biases = {{3, 1.5F}};
  const std::vector<TokenCount> history = {{0, 1, 0}, {1, 0, 2}, {2, 0, 0}};
  const std::vector<double> edited =
      edited_logits(std::vector<double>{4.0, -1.0, 3.0, 2.0}, sampling, biases, history);
  EXPECT_EQ(edited, (std::vector<double>{2.0, -3.0, 3.0, 3.5}));
}

TEST(ReferenceSampler, FiltersKeepPrefixes) {
  const std::vector<double> probabilities = {0.1, 0.4, 0.2, 0.3};
  RowSampling top_k;
  top_k.top_k = 2;
  EXPECT_EQ(kept_tokens(probabilities, top_k).surely,
            (std::vector<bool>{false, true, false, true}));
  RowSampling top_p;
  top_p.top_p = 0.75F;
  EXPECT_EQ(kept_tokens(probabilities, top_p).perhaps,
            (std::vector<bool>{false, true, true, true}));
  RowSampling min_p;
  min_p.min_p = 0.6F;
  EXPECT_EQ(kept_tokens(probabilities, min_p).surely,
            (std::vector<bool>{false, true, false, true}));
  top_p.top_p = 0.7F;  // 0.4 and 0.3 reach it exactly: rounding decides on the next
  const Kept edge = kept_tokens(probabilities, top_p);
  EXPECT_FALSE(edge.surely[2]);
  EXPECT_TRUE(edge.perhaps[2]);
}

TEST(ReferenceSampler, ExcessTellsWrongDrawsFromRightOnes) {
  const std::vector<double> probabilities = {0.5, 0.3, 0.15, 0.05};
  EXPECT_LT(draw_excess(std::vector<int64_t>{510, 290, 155, 45}, probabilities), 1.0);
  EXPECT_GT(draw_excess(std::vector<int64_t>{400, 400, 150, 50}, probabilities), 6.0);
}

TEST(WeightCodec, HalvesRoundToEven) {
  EXPECT_EQ(to_f16(1.0F), 0x3C00);
  EXPECT_EQ(to_f16(-2.5F), 0xC100);
  EXPECT_EQ(to_f16(65504.0F), 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(to_f16(0x1p-24F), 0x0001);
  EXPECT_EQ(to_f16(2049.0F), to_f16(2048.0F));
  EXPECT_EQ(from_f16(0x3555), 0.333251953125F);
  EXPECT_EQ(to_bf16(1.00390625F), 0x3F80);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(WeightCodec, BlocksKeepMultiplesOfTheirScale) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 8.0F;
  values[31] = 127.0F;  // scale 1
  EXPECT_EQ(decode(DType::kQ8_0, encode(DType::kQ8_0, values)), values);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16) - 8.0F;
  const std::vector<std::byte> q4_0 = encode(DType::kQ4_0, values);
  EXPECT_EQ(q4_0.size(), 18U);
  EXPECT_EQ(decode(DType::kQ4_0, q4_0), values);
}

}  // namespace
}  // namespace encore::check
