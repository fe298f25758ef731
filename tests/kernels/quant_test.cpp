#include "kernels/cpu/quant.h"

#include <gtest/gtest.h>

#include <cmath>

#include "linear_test_support.h"
#include "quant_vectors.h"

namespace encore::kernels {
namespace {

TEST(QuantTest, DequantisesAsTheReferenceDoes) {
  ASSERT_EQ(kQuantVectors.size(), 6U);
  for (const QuantVector& vector : kQuantVectors) {
    std::vector<float> values(vector.value_bits.size());
    dequantize_row(vector.type, vector.blocks.data(), static_cast<int64_t>(values.size()),
                   values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], std::bit_cast<float>(vector.value_bits[i]))
          << type_name(vector.type) << " element " << i;
    }
  }
}

TEST(QuantTest, HalfPrecisionConversionsAreExact) {
  EXPECT_EQ(f16_to_f32(0x0000), 0.0F);
  EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x83FF), -1023 * 0x1p-24F);
  EXPECT_EQ(f16_to_f32(0x3555), 0.333251953125F);
  EXPECT_EQ(f16_to_f32(0x7BFF), 65504.0F);
  EXPECT_TRUE(std::isinf(f16_to_f32(0xFC00)));
  EXPECT_TRUE(std::isnan(f16_to_f32(0x7E00)));
}

TEST(QuantTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.00390625F), 0x3F80);  // halfway: down to even
  EXPECT_EQ(f32_to_bf16(1.01171875F), 0x3F82);  // halfway: up to even
  EXPECT_EQ(f32_to_bf16(1.00390637F), 0x3F81);  // just above halfway
  EXPECT_EQ(f32_to_bf16(3.4e38F), 0x7F80);      // overflows to infinity
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

class QuantPackTest : public testing::TestWithParam<WeightType> {};

TEST_P(QuantPackTest, APackedRowReadsBackBitForBit) {
  constexpr int64_t kN = 37;
  constexpr int64_t kK = 768;
  const TestWeight weight(GetParam(), kN, kK, 50);
  const std::vector<float> expected = weight.dequantized();
  std::vector<float> row(kK);
  for (int64_t n = 0; n < kN; ++n) {
    dequantize_packed_row(weight.packed, n, row.data());
    for (int64_t k = 0; k < kK; ++k) {
      ASSERT_EQ(std::bit_cast<uint32_t>(row[k]), std::bit_cast<uint32_t>(expected[n * kK + k]))
          << "row " << n << " element " << k;
    }
  }
}

TEST_P(QuantPackTest, PiecesPackedApartEqualTheWhole) {
  constexpr int64_t kN = 70;
  constexpr int64_t kK = 512;
  const TestWeight whole(GetParam(), kN, kK, 51);
  AlignedBytes pieces(whole.bytes.size());
  for (const auto& [begin, end] : {std::pair{48, 70}, std::pair{0, 16}, std::pair{16, 48}}) {
    pack_weight(GetParam(), whole.file.data(), kN, kK, begin, end, pieces.data());
  }
  // The padding between panels is never read; with k = 512 there is none.
  EXPECT_EQ(std::memcmp(pieces.data(), whole.bytes.data(), pieces.size()), 0);
}

TEST_P(QuantPackTest, PackedIsNotLargerThanTheFileByMoreThanThreePercent) {
  constexpr int64_t kN = 2048;
  constexpr int64_t kK = 2048;
  const int64_t file_bytes = kN * kK / block_elements(GetParam()) * block_bytes(GetParam());
  const auto file = static_cast<double>(file_bytes);
  EXPECT_LE(static_cast<double>(packed_bytes(GetParam(), kN, kK)), file * 1.03);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantPackTest, testing::ValuesIn(kAllTypes),
                         [](const auto& type) { return type_name(type.param); });

}  // namespace
}  // namespace encore::kernels
