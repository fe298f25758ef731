#include "kernels/cpu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "linear_internal.h"
#include "linear_test_support.h"

namespace encore::kernels {
namespace {

struct Case {
  IsaLevel level;
  WeightType type;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const IsaLevel level : levels_to_test()) {
    for (const WeightType type : kAllTypes) cases.push_back({level, type});
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return std::string(isa_level_name(info.param.level)) + "_" + type_name(info.param.type);
}

// The same bits, and how many differ if not.
testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes differ";
  size_t different = 0;
  size_t first = 0;
  for (size_t i = a.size(); i-- > 0;) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      ++different;
      first = i;
    }
  }
  if (different == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << different << " of " << a.size() << " differ, first at "
                                     << first << ": " << a[first] << " and " << b[first];
}

// BF16 has its own rounding where the processor multiplies bf16 itself.
bool equals_reference(const Case& c) {
  return c.type != WeightType::kBF16 || c.level < IsaLevel::kAvx512 ||
         (c.level == IsaLevel::kAvx512 && !cpu_features().avx512_bf16);
}

// Sets every byte of a weight to `fill` but those of its f16 scales.
void fill_codes(WeightType type, uint8_t fill, TestWeight* weight) {
  const auto bytes = static_cast<size_t>(block_bytes(type));
  const std::vector<int> scales = scale_offsets(type);
  for (size_t i = 0; i < weight->file.size(); ++i) {
    const auto offset = static_cast<int>(i % bytes);
    const bool scale = std::any_of(scales.begin(), scales.end(),
                                   [&](int at) { return offset == at || offset == at + 1; });
    if (!scale) weight->file[i] = fill;
  }
  pack_weight(type, weight->file.data(), weight->packed.n, weight->packed.k, 0, weight->packed.n,
              weight->bytes.data());
}

class LinearTest : public testing::TestWithParam<Case> {};

// The largest error that rounding x may cause (see linear.h), plus f32 accumulation.
double error_bound(WeightType type, const float* w, const float* x, int64_t k) {
  double bound = 0.0;
  for (int64_t group = 0; group < k; group += 32) {
    const int64_t end = std::min(k, group + 32);
    double largest = 0.0;
    for (int64_t i = group; i < end; ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
    }
    for (int64_t i = group; i < end; ++i) {
      const double weight = std::fabs(static_cast<double>(w[i]));
      const double input = std::fabs(static_cast<double>(x[i]));
      if (is_quantised(type)) bound += weight * largest / 65534.0;
      if (type == WeightType::kBF16) bound += weight * input / 256.0;
      bound += weight * input * 4e-6;
    }
  }
  return bound;
}

TEST_P(LinearTest, IsCloseToFloat64) {
  const auto [level, type] = GetParam();
  constexpr int64_t kN = 40;
  constexpr int64_t kK = 1280;  // more than one chunk
  constexpr int32_t kRows = 7;
  const TestWeight weight(type, kN, kK, 1);
  const std::vector<float> x = random_rows(kRows, kK, 2);
  const std::vector<float> w = weight.dequantized();
  const std::vector<float> y = product(weight.packed, x, kRows, level);
  double error_squares = 0.0;
  double squares = 0.0;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kN; ++column) {
      double exact = 0.0;
      for (int64_t i = 0; i < kK; ++i) {
        exact += static_cast<double>(w[column * kK + i]) * static_cast<double>(x[row * kK + i]);
      }
      const double error = static_cast<double>(y[row * kN + column]) - exact;
      EXPECT_LE(std::fabs(error), error_bound(type, &w[column * kK], &x[row * kK], kK))
          << "row " << row << " column " << column;
      error_squares += error * error;
      squares += exact * exact;
    }
  }
  EXPECT_LT(std::sqrt(error_squares / squares), is_quantised(type) ? 3e-5 : 0.003);
}

// Odd sizes: columns that fill no panel, inputs that fill no vector (float formats).
TEST_P(LinearTest, EqualsTheReferenceBitForBit) {
  const auto [level, type] = GetParam();
  if (!equals_reference(GetParam())) GTEST_SKIP() << "this level has its own bf16 rounding";
  for (const int64_t n : {1, 16, 37, 131}) {
    for (int64_t k : {256, 1536, 2085}) {
      if (is_quantised(type)) k = k / 256 * 256;
      const TestWeight weight(type, n, k, static_cast<uint32_t>(n + k));
      const std::vector<float> x = random_rows(13, k, 3);
      for (const int32_t rows : {1, 2, 3, 4, 5, 6, 13}) {
        EXPECT_TRUE(same_bits(product(weight.packed, x, rows, level),
                              product(weight.packed, x, rows, IsaLevel::kGeneric)))
            << "n " << n << " k " << k << " rows " << rows;
      }
    }
  }
}

TEST_P(LinearTest, KOfOneGroupMore) {
  const auto [level, type] = GetParam();
  if (!equals_reference(GetParam())) GTEST_SKIP() << "this level has its own bf16 rounding";
  const int64_t k = block_elements(type) == 1 ? 33 : block_elements(type) * 3;
  const TestWeight weight(type, 150, k, 4);
  const std::vector<float> x = random_rows(9, k, 5);
  for (const int32_t rows : {1, 9}) {
    EXPECT_TRUE(same_bits(product(weight.packed, x, rows, level),
                          product(weight.packed, x, rows, IsaLevel::kGeneric)));
  }
}

TEST_P(LinearTest, ARowDoesNotDependOnItsNeighboursOrTheTeam) {
  const auto [level, type] = GetParam();
  constexpr int64_t kN = 210;
  constexpr int64_t kK = 1280;
  constexpr int32_t kRows = 205;  // three row chunks
  const TestWeight weight(type, kN, kK, 6);
  const std::vector<float> x = random_rows(kRows, kK, 7);
  const std::vector<float> all = product(weight.packed, x, kRows, level);
  for (const int32_t threads : {2, 3, 5}) {
    EXPECT_TRUE(same_bits(all, product(weight.packed, x, kRows, level, threads)));
  }
  for (const int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33}) {
    // The last rows, so that each has another place than in the whole.
    const std::vector<float> tail(x.end() - rows * kK, x.end());
    const std::vector<float> expected(all.end() - rows * kN, all.end());
    for (const int32_t threads : {1, 2, 3}) {
      for (const bool scratch : {true, false}) {
        EXPECT_TRUE(
            same_bits(expected, product(weight.packed, tail, rows, level, threads, scratch)))
            << rows << " rows, " << threads << " threads";
      }
    }
  }
}

TEST_P(LinearTest, LeavesEverythingElseAlone) {
  const auto [level, type] = GetParam();
  constexpr int64_t kN = 21;
  constexpr int64_t kK = 256;
  constexpr int64_t kStride = 30;
  constexpr float kGuard = 12345.0F;
  const TestWeight weight(type, kN, kK, 8);
  std::vector<float> x = random_rows(8, kK, 9);
  std::fill(x.begin() + 3 * kK, x.end(), std::numeric_limits<float>::quiet_NaN());
  for (const int32_t live : {-1, 0, 1, 3}) {
    std::vector<float> y(8 * kStride, kGuard);
    LinearArgs args;
    args.x = x.data();
    args.x_stride = kK;
    args.num_rows = &live;
    args.max_rows = 8;
    args.parts[0] = {weight.packed, nullptr, 4};
    args.y = y.data();
    args.y_stride = kStride;
    args.level = level;
    run_linear(args, 2);
    for (int64_t row = 0; row < 8; ++row) {
      for (int64_t column = 0; column < kStride; ++column) {
        const bool written = row < live && column >= 4 && column < 4 + kN;
        const float value = y[row * kStride + column];
        EXPECT_EQ(value != kGuard, written) << "row " << row << " column " << column;
        EXPECT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST_P(LinearTest, ANanReachesItsRowOnly) {
  const auto [level, type] = GetParam();
  const TestWeight weight(type, 16, 256, 10);
  std::vector<float> x = random_rows(6, 256, 11);
  x[2 * 256 + 100] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = product(weight.packed, x, 6, level);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 16 == 2) << i;
}

TEST_P(LinearTest, AddAndBias) {
  const auto [level, type] = GetParam();
  constexpr int64_t kN = 37;
  const TestWeight weight(type, kN, 512, 12);
  for (const int32_t rows : {1, 11}) {
    const std::vector<float> x = random_rows(rows, 512, 13);
    const std::vector<float> bias = random_rows(1, kN, 14);
    const std::vector<float> before = random_rows(rows, kN, 15);
    const std::vector<float> plain = product(weight.packed, x, rows, level);
    std::vector<float> y = before;
    LinearArgs args;
    args.x = x.data();
    args.x_stride = 512;
    args.num_rows = &rows;
    args.max_rows = rows;
    args.parts[0] = {weight.packed, bias.data(), 0};
    args.y = y.data();
    args.y_stride = kN;
    args.epilogue = Epilogue::kAdd;
    args.level = level;
    run_linear(args, 3);
    std::vector<float> expected = plain;
    for (size_t i = 0; i < y.size(); ++i) expected[i] = before[i] + (plain[i] + bias[i % kN]);
    EXPECT_TRUE(same_bits(y, expected));
  }
}

// Where the processor has AVX-VNNI the AVX2 level uses it; the other way must not go untested
// there.
TEST(LinearAvx2Test, PairwiseProductsEqualTheReference) {
  if (cpu_features().level < IsaLevel::kAvx2) GTEST_SKIP() << "the processor lacks AVX2";
  for (const WeightType type : kAllTypes) {
    if (!is_quantised(type)) continue;
    constexpr int32_t kRows = 7;
    const TestWeight weight(type, 37, 768, 40);
    const std::vector<float> x = random_rows(kRows, 768, 41);
    AlignedBytes codes(static_cast<size_t>(kRows * quantised_stride(768)));
    linear_kernels_avx2().quantize_rows({x.data(), 768, 768, 0, kRows, codes.data()});
    std::vector<float> y(size_t{kRows} * 37);
    ColumnTask task{};
    task.type = type;
    task.weights = weight.bytes.data();
    task.n = 37;
    task.k = 768;
    task.col_end = 37;
    task.row_end = kRows;
    task.activations = codes.data();
    task.activation_stride = quantised_stride(768);
    task.y = y.data();
    task.y_stride = 37;
    quantised_columns_avx2_pairs(task);
    EXPECT_TRUE(same_bits(y, product(weight.packed, x, kRows, IsaLevel::kGeneric)))
        << type_name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LinearTest, testing::ValuesIn(all_cases()), case_name);

class LinearFusedTest : public testing::TestWithParam<IsaLevel> {};

// The largest dot products that a group can have, of either sign, fit: x of one magnitude becomes
// the largest codes without error, so only float rounding is left.
TEST_P(LinearFusedTest, LargestCodesDoNotOverflow) {
  constexpr int64_t kN = 16;
  constexpr int64_t kK = 512;
  const int fills[] = {0x00, 0x7F, 0x80, 0xFF};
  for (const WeightType type : kAllTypes) {
    if (!is_quantised(type)) continue;
    for (int i = 0; i < 8; ++i) {
      TestWeight weight(type, kN, kK, 16);
      fill_codes(type, static_cast<uint8_t>(fills[i / 2]), &weight);
      const float value = i % 2 == 0 ? 3.0F : -3.0F;
      const std::vector<float> x(kK, value);
      const std::vector<float> w = weight.dequantized();
      const std::vector<float> y = product(weight.packed, x, 1, GetParam());
      for (int64_t column = 0; column < kN; ++column) {
        double exact = 0.0;
        double magnitude = 0.0;
        for (int64_t k = 0; k < kK; ++k) {
          exact += static_cast<double>(w[column * kK + k]) * static_cast<double>(value);
          magnitude += std::fabs(static_cast<double>(w[column * kK + k] * value));
        }
        EXPECT_NEAR(y[column], exact, 2e-6 * magnitude) << type_name(type) << " fill " << i / 2;
      }
    }
  }
}

// An identity matrix shows the codes themselves where the largest input makes the scale 1.
TEST_P(LinearFusedTest, ActivationsAreRoundedTo16BitsNearestEven) {
  std::vector<uint8_t> file(32 * 34, 0);  // 32 outputs of 32 inputs, Q8_0
  for (size_t i = 0; i < 32; ++i) {
    file[i * 34 + 1] = 0x3C;  // d = 1 in f16
    file[i * 34 + 2 + i] = 1;
  }
  AlignedBytes bytes(packed_bytes(WeightType::kQ8_0, 32, 32));
  pack_weight(WeightType::kQ8_0, file.data(), 32, 32, 0, 32, bytes.data());
  std::vector<float> x = {32767.0F, 0.5F,    1.5F,      2.5F,      -0.5F,      -1.5F,
                          -2.5F,    0.4999F, 16000.51F, -16000.5F, -32766.51F, 255.75F};
  std::vector<float> expected = {32767, 0, 2, 2, 0, -2, -2, 0, 16001, -16000, -32767, 256};
  x.resize(32, -32767.0F);
  expected.resize(32, -32767.0F);
  EXPECT_EQ(product({WeightType::kQ8_0, bytes.data(), 32, 32}, x, 1, GetParam()), expected);
}

// As a model's q, k and v may be: three types at once.
TEST_P(LinearFusedTest, PartsEqualSeparateProducts) {
  const TestWeight q(WeightType::kQ4_K, 64, 512, 20);
  const TestWeight k(WeightType::kBF16, 35, 512, 21);
  const TestWeight v(WeightType::kF32, 18, 512, 22);
  for (const int32_t rows : {1, 3, 40}) {
    const std::vector<float> x = random_rows(rows, 512, 23);
    std::vector<float> y(static_cast<size_t>(rows) * 117);
    LinearArgs args;
    args.x = x.data();
    args.x_stride = 512;
    args.num_rows = &rows;
    args.max_rows = rows;
    args.num_parts = 3;
    args.parts = {{{q.packed, nullptr, 0}, {k.packed, nullptr, 64}, {v.packed, nullptr, 99}}};
    args.y = y.data();
    args.y_stride = 117;
    args.level = GetParam();
    run_linear(args, 2);
    std::vector<float> expected;
    const std::vector<float> parts[] = {product(q.packed, x, rows, GetParam()),
                                        product(k.packed, x, rows, GetParam()),
                                        product(v.packed, x, rows, GetParam())};
    for (int32_t row = 0; row < rows; ++row) {
      for (const std::vector<float>& part : parts) {
        const auto n = static_cast<int64_t>(part.size()) / rows;
        expected.insert(expected.end(), part.begin() + row * n, part.begin() + (row + 1) * n);
      }
    }
    EXPECT_TRUE(same_bits(y, expected)) << rows;
  }
}

TEST_P(LinearFusedTest, SiluMulGatesUp) {
  const TestWeight gate(WeightType::kQ4_1, 100, 256, 30);
  const TestWeight up(WeightType::kQ6_K, 100, 256, 31);
  for (const int32_t rows : {1, 2, 50}) {
    std::vector<float> x = random_rows(rows, 256, 32);
    for (float& value : x) value *= 20.0F;  // gates far from zero too
    std::vector<float> y(static_cast<size_t>(rows) * 100);
    LinearArgs args;
    args.x = x.data();
    args.x_stride = 256;
    args.num_rows = &rows;
    args.max_rows = rows;
    args.num_parts = 2;
    args.parts[0].weight = gate.packed;
    args.parts[1].weight = up.packed;
    args.y = y.data();
    args.y_stride = 100;
    args.epilogue = Epilogue::kSiluMul;
    args.level = GetParam();
    run_linear(args, 3);
    const std::vector<float> g = product(gate.packed, x, rows, GetParam());
    const std::vector<float> u = product(up.packed, x, rows, GetParam());
    for (size_t i = 0; i < y.size(); ++i) {
      const double value = static_cast<double>(g[i]);
      const double expected = value / (1.0 + std::exp(-value)) * static_cast<double>(u[i]);
      EXPECT_NEAR(y[i], expected, 1e-6 * std::fabs(expected) + 1e-30) << "gate " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, LinearFusedTest, testing::ValuesIn(levels_to_test()),
                         [](const auto& level) { return isa_level_name(level.param); });

}  // namespace
}  // namespace encore::kernels
