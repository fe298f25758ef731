#include "kernels/cpu/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops_test_support.h"

namespace encore::kernels {
namespace {

constexpr float kEps = 1e-5F;
constexpr int32_t kGap = 3;  // elements between rows, poisoned

struct NormCase {
  int32_t rows;
  int32_t columns;
  bool with_residual;
};

struct NormResult {
  std::vector<float> y;         // [rows + 1, columns + kGap]
  std::vector<float> residual;  // likewise
};

std::vector<float> spread(const std::vector<float>& values, int32_t rows, int32_t columns) {
  std::vector<float> out(static_cast<size_t>(rows + 1) * (columns + kGap), kPoison);
  for (int32_t r = 0; r < rows; ++r) {
    std::copy_n(values.data() + r * columns, columns, out.data() + r * (columns + kGap));
  }
  return out;
}

NormResult run_norm(IsaLevel level, const NormCase& c, const std::vector<float>& x,
                    const std::vector<float>& residual, const std::vector<float>& weight,
                    int32_t threads) {
  const int32_t stride = c.columns + kGap;
  NormResult result{std::vector<float>(static_cast<size_t>(c.rows + 1) * stride, kPoison),
                    spread(residual, c.rows, c.columns)};
  const std::vector<float> spread_x = spread(x, c.rows, c.columns);
  RmsNormArgs args{};
  args.num_rows = &c.rows;
  args.x = spread_x.data();
  args.x_stride = stride;
  args.residual = c.with_residual ? result.residual.data() : nullptr;
  args.residual_stride = stride;
  args.weight = weight.data();
  args.y = result.y.data();
  args.y_stride = stride;
  args.hidden_size = c.columns;
  args.eps = kEps;
  run_team(rms_norm_kernel(level), args, threads);
  return result;
}

class RmsNormTest : public testing::TestWithParam<IsaLevel> {};

TEST_P(RmsNormTest, AgreesWithDoubleAndKeepsToItsRows) {
  for (const NormCase& c :
       {NormCase{1, 576, false}, NormCase{5, 576, true}, NormCase{3, 8, true},
        NormCase{2, 77, false}, NormCase{2, 77, true}, NormCase{4, 4096, true}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " x " << c.columns);
    const size_t count = static_cast<size_t>(c.rows) * c.columns;
    const std::vector<float> x = random_floats(count, 1, 3.0F);
    const std::vector<float> residual = random_floats(count, 2, 3.0F);
    const std::vector<float> weight = random_floats(c.columns, 3);
    const NormResult result = run_norm(GetParam(), c, x, residual, weight, 2);
    const int32_t stride = c.columns + kGap;
    for (int32_t r = 0; r < c.rows; ++r) {
      double sum = 0.0;
      std::vector<double> row(c.columns);
      for (int32_t i = 0; i < c.columns; ++i) {
        const size_t at = static_cast<size_t>(r) * c.columns + i;
        row[i] = c.with_residual ? static_cast<double>(x[at] + residual[at]) : x[at];
        sum += row[i] * row[i];
        const float kept = result.residual[static_cast<size_t>(r) * stride + i];
        ASSERT_EQ(kept, c.with_residual ? x[at] + residual[at] : residual[at]);
      }
      const double inverse = 1.0 / std::sqrt(sum / c.columns + static_cast<double>(kEps));
      for (int32_t i = 0; i < c.columns; ++i) {
        const double expected = row[i] * inverse * static_cast<double>(weight[i]);
        ASSERT_NEAR(result.y[static_cast<size_t>(r) * stride + i], expected,
                    1e-6 * (1.0 + std::abs(expected)));
      }
      EXPECT_TRUE(all_poison(&result.y[static_cast<size_t>(r) * stride + c.columns], kGap));
      EXPECT_TRUE(all_poison(&result.residual[static_cast<size_t>(r) * stride + c.columns], kGap));
    }
    EXPECT_TRUE(all_poison(&result.y[static_cast<size_t>(c.rows) * stride], stride));
  }
}

TEST_P(RmsNormTest, ZerosStayZeroAndNaNStaysInItsRow) {
  const NormCase c{3, 64, false};
  std::vector<float> x(3 * 64, 0.0F);
  x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weight(64, 1.0F);
  const NormResult result = run_norm(GetParam(), c, x, x, weight, 1);
  const int32_t stride = c.columns + kGap;
  for (int32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(result.y[i], 0.0F);
    EXPECT_TRUE(std::isnan(result.y[stride + i]));
    EXPECT_EQ(result.y[2 * stride + i], 0.0F);
  }
}

TEST_P(RmsNormTest, CompanyAndThreadsDoNotChangeBits) {
  const std::vector<float> x = random_floats(7 * 576, 4);
  const std::vector<float> residual = random_floats(7 * 576, 5);
  const std::vector<float> weight = random_floats(576, 6);
  const NormResult together = run_norm(GetParam(), {7, 576, true}, x, residual, weight, 3);
  for (int32_t r = 0; r < 7; ++r) {
    const std::vector<float> own(x.begin() + r * 576, x.begin() + (r + 1) * 576);
    const std::vector<float> own_residual(residual.begin() + r * 576,
                                          residual.begin() + (r + 1) * 576);
    const NormResult alone = run_norm(GetParam(), {1, 576, true}, own, own_residual, weight, 1);
    EXPECT_TRUE(same_bits(alone.y.data(), together.y.data() + r * (576 + kGap), 576));
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, RmsNormTest, testing::ValuesIn(ops_levels()), LevelName());

}  // namespace
}  // namespace encore::kernels
