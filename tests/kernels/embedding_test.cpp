#include "kernels/cpu/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/quant.h"
#include "ops_test_support.h"

namespace encore::kernels {
namespace {

constexpr int32_t kVocab = 12;
constexpr int32_t kHidden = 512;
constexpr int32_t kStride = kHidden + 4;

constexpr WeightType kTypes[] = {WeightType::kF32,  WeightType::kF16,  WeightType::kBF16,
                                 WeightType::kQ8_0, WeightType::kQ4_0, WeightType::kQ4_1,
                                 WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

// What each format's rows mean is tested with the formats; here, that the right row arrives.
TEST(EmbeddingTest, TakesRowsOfEveryFormat) {
  const int32_t ids[] = {3, -1 - 1, 0, 11, -1 - 0, 12, -1 - 2, 7};
  const int32_t previous[] = {5, 9, -1};
  const int32_t expected_ids[] = {3, 9, 0, 11, 5, -1, -1};
  const int32_t live = 7;
  for (const WeightType type : kTypes) {
    const int64_t row_bytes = kHidden / block_elements(type) * block_bytes(type);
    std::vector<std::byte> weight(static_cast<size_t>(kVocab * row_bytes));
    // Small bytes: no format's halves become NaN.
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<std::byte>(i * 37 % 61);
    for (const int32_t threads : {1, 3}) {
      std::vector<float> y(8 * kStride, kPoison);
      EmbeddingArgs args{};
      args.num_tokens = &live;
      args.token_ids = ids;
      args.previous_tokens = previous;
      args.weight = weight.data();
      args.row_bytes = row_bytes;
      args.type = type;
      args.vocab_size = kVocab;
      args.hidden_size = kHidden;
      args.y = y.data();
      args.y_stride = kStride;
      run_team(embedding, args, threads);
      for (int32_t t = 0; t < live; ++t) {
        std::vector<float> expected(kHidden, 0.0F);
        if (expected_ids[t] >= 0) {
          dequantize_row(type, weight.data() + expected_ids[t] * row_bytes, kHidden,
                         expected.data());
        }
        EXPECT_TRUE(same_bits(&y[t * kStride], expected.data(), kHidden)) << "token " << t;
        EXPECT_TRUE(all_poison(&y[t * kStride + kHidden], 4));
      }
      EXPECT_TRUE(all_poison(&y[live * kStride], kStride));
    }
  }
}

TEST(EmbeddingTest, NegativeIdsWithoutPreviousTokensAreZeros) {
  const std::vector<float> weight = random_floats(4 * 8, 1);
  const int32_t id = -1;
  const int32_t live = 1;
  std::vector<float> y(8, kPoison);
  EmbeddingArgs args{};
  args.num_tokens = &live;
  args.token_ids = &id;
  args.weight = reinterpret_cast<const std::byte*>(weight.data());
  args.row_bytes = 32;
  args.type = WeightType::kF32;
  args.vocab_size = 4;
  args.hidden_size = 8;
  args.y = y.data();
  args.y_stride = 8;
  embedding(args, Worker{});
  EXPECT_EQ(std::count(y.begin(), y.end(), 0.0F), 8);
}

}  // namespace
}  // namespace encore::kernels
