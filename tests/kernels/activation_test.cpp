#include "kernels/cpu/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops_test_support.h"

namespace encore::kernels {
namespace {

constexpr int32_t kGap = 5;  // elements between rows, poisoned

class ActivationTest : public testing::TestWithParam<IsaLevel> {};

template <typename Args, typename Kernel>
std::vector<float> run_rows(Kernel kernel, Args args, const float* a, const float* b, int32_t rows,
                            int32_t columns, int32_t threads) {
  std::vector<float> y(static_cast<size_t>(rows + 1) * (columns + kGap), kPoison);
  args.num_rows = &rows;
  if constexpr (std::is_same_v<Args, AddArgs>) {
    args.a = a;
    args.b = b;
    args.a_stride = args.b_stride = columns;
  } else {
    args.gate = a;
    args.up = b;
    args.gate_stride = args.up_stride = columns;
  }
  args.y = y.data();
  args.y_stride = columns + kGap;
  args.columns = columns;
  run_team(kernel, args, threads);
  for (int32_t r = 0; r < rows; ++r) {
    EXPECT_TRUE(all_poison(&y[static_cast<size_t>(r) * (columns + kGap) + columns], kGap));
  }
  EXPECT_TRUE(all_poison(&y[static_cast<size_t>(rows) * (columns + kGap)], columns + kGap));
  return y;
}

double silu(double v) { return v / (1.0 + std::exp(-v)); }

TEST_P(ActivationTest, SiluMulAgreesWithDoubleOverItsWholeRange) {
  // Every magnitude from 2^-20 to 2^10, both signs.
  std::vector<float> gate;
  for (int32_t i = 0; i < 4000; ++i) {
    const float magnitude = std::exp2(-20.0F + 30.0F * static_cast<float>(i) / 4000.0F);
    gate.push_back(i % 2 == 0 ? magnitude : -magnitude);
  }
  const std::vector<float> up(gate.size(), 1.0F);
  const std::vector<float> y = run_rows(silu_mul_kernel(GetParam()), SiluMulArgs{}, gate.data(),
                                        up.data(), 1, static_cast<int32_t>(gate.size()), 2);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double expected = silu(static_cast<double>(gate[i]));
    // exp may flush what is near the smallest normal f32.
    ASSERT_NEAR(y[i], expected, 5e-7 * std::abs(expected) + 2e-36) << "at " << gate[i];
  }
}

TEST_P(ActivationTest, SiluMulOfExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float gate[] = {0.0F, kInfinity, -3e38F, 3e38F, std::numeric_limits<float>::quiet_NaN()};
  const float up[] = {5.0F, 1.0F, 1.0F, 1.0F, 1.0F};
  const std::vector<float> y =
      run_rows(silu_mul_kernel(GetParam()), SiluMulArgs{}, gate, up, 1, 5, 1);
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_EQ(y[1], kInfinity);
  EXPECT_EQ(y[2], 0.0F);
  EXPECT_EQ(y[3], 3e38F);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_P(ActivationTest, RowsKeepApartForAnyShapeAndTeam) {
  for (const int32_t columns : {1, 63, 64, 65, 1536}) {
    for (const int32_t rows : {1, 2, 7}) {
      const size_t count = static_cast<size_t>(rows) * columns;
      const std::vector<float> a = random_floats(count, 1);
      const std::vector<float> b = random_floats(count, 2);
      const auto add = add_kernel(GetParam());
      const auto mul = silu_mul_kernel(GetParam());
      const std::vector<float> sum = run_rows(add, AddArgs{}, a.data(), b.data(), rows, columns, 3);
      const std::vector<float> one =
          run_rows(mul, SiluMulArgs{}, a.data(), b.data(), rows, columns, 1);
      const std::vector<float> three =
          run_rows(mul, SiluMulArgs{}, a.data(), b.data(), rows, columns, 3);
      EXPECT_TRUE(same_bits(one.data(), three.data(), one.size()));
      for (int32_t r = 0; r < rows; ++r) {
        for (int32_t i = 0; i < columns; ++i) {
          const size_t from = static_cast<size_t>(r) * columns + i;
          const size_t to = static_cast<size_t>(r) * (columns + kGap) + i;
          ASSERT_EQ(sum[to], a[from] + b[from]);
          ASSERT_NEAR(one[to], silu(static_cast<double>(a[from])) * static_cast<double>(b[from]),
                      2e-6);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ActivationTest, testing::ValuesIn(ops_levels()), LevelName());

}  // namespace
}  // namespace encore::kernels
