// Norm and activation, with numbers whose results are known.
#include <cmath>
#include <vector>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/norm.h"
#include "selftest_parts.h"

namespace encore::cpu {
namespace {

constexpr int32_t kColumns = 83;  // five vectors of 16 and a rest
constexpr int32_t kRows = 3;

// Of 1, 7, 1, 7, ..., 5 last, the mean square is 25, so the norm divides by 5.
float value_at(int32_t column) {
  if (column == kColumns - 1) return 5.0F;
  return column % 2 == 0 ? 1.0F : 7.0F;
}

Status test_norm(ThreadTeam& team, kernels::IsaLevel level) {
  std::vector<float> x(kRows * kColumns, 0.5F);
  std::vector<float> residual(x.size());
  std::vector<float> weight(kColumns);
  std::vector<float> y(x.size());
  for (int32_t i = 0; i < kColumns; ++i) {
    weight[static_cast<size_t>(i)] = static_cast<float>(i);
    for (int32_t row = 0; row < kRows; ++row) {
      residual[static_cast<size_t>(row) * kColumns + static_cast<size_t>(i)] = value_at(i) - 0.5F;
    }
  }
  const int32_t rows = kRows;
  const kernels::RmsNormArgs args{&rows,         x.data(), kColumns, residual.data(), kColumns,
                                  weight.data(), y.data(), kColumns, kColumns,        0.0F};
  team.run(kernels::rms_norm_kernel(level), args);
  for (int32_t i = 0; i < kRows * kColumns; ++i) {
    const int32_t column = i % kColumns;
    const auto index = static_cast<size_t>(i);
    const double expected = static_cast<double>(value_at(column)) * column / 5.0;
    ENCORE_RETURN_IF_ERROR(expect_near("rms_norm", i, static_cast<double>(y[index]), expected,
                                       1e-5 * std::abs(expected)));
    ENCORE_RETURN_IF_ERROR(expect_near("rms_norm's residual", i,
                                       static_cast<double>(residual[index]),
                                       static_cast<double>(value_at(column)), 0.0));
  }
  return {};
}

Status test_silu_mul(ThreadTeam& team, kernels::IsaLevel level) {
  std::vector<float> gate(kRows * kColumns);
  std::vector<float> up(gate.size(), -2.0F);
  std::vector<float> y(gate.size());
  // -30 .. 32, where the exponential neither vanishes nor overflows.
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = static_cast<float>(i) * 0.25F - 30.0F;
  const int32_t rows = kRows;
  const kernels::SiluMulArgs args{&rows,    gate.data(), kColumns, up.data(),
                                  kColumns, y.data(),    kColumns, kColumns};
  team.run(kernels::silu_mul_kernel(level), args);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double v = static_cast<double>(gate[i]);
    const double expected = -2.0 * v / (1.0 + std::exp(-v));
    ENCORE_RETURN_IF_ERROR(expect_near("silu_mul", static_cast<int64_t>(i),
                                       static_cast<double>(y[i]), expected,
                                       1e-5 * std::abs(expected)));
  }
  return {};
}

Status test_add(ThreadTeam& team, kernels::IsaLevel level) {
  std::vector<float> a(kRows * kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  const std::vector<float> b(a.size(), 0.5F);
  std::vector<float> y(a.size());
  const int32_t rows = kRows;
  const kernels::AddArgs args{&rows,    a.data(), kColumns, b.data(),
                              kColumns, y.data(), kColumns, kColumns};
  team.run(kernels::add_kernel(level), args);
  for (size_t i = 0; i < a.size(); ++i) {
    ENCORE_RETURN_IF_ERROR(expect_near("add", static_cast<int64_t>(i), static_cast<double>(y[i]),
                                       static_cast<double>(i) + 0.5, 0.0));
  }
  return {};
}

}  // namespace

Status test_elementwise(ThreadTeam& team, kernels::IsaLevel level) {
  ENCORE_RETURN_IF_ERROR(test_norm(team, level));
  ENCORE_RETURN_IF_ERROR(test_silu_mul(team, level));
  return test_add(team, level);
}

}  // namespace encore::cpu
