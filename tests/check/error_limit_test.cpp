// The limits of logit_error.h admit every arithmetic that they are for, and no defect.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "logit_error.h"
#include "random_model.h"
#include "reference_model.h"
#include "step_driver.h"

namespace encore::check {
namespace {

constexpr int32_t kTokens = 40;
constexpr uint64_t kSeeds[] = {1, 2};
// Between the limit and what it admits, and between it and what it must find.
constexpr double kMargin = 1.5;

struct Trial {
  RandomModel random;
  std::vector<int32_t> tokens;
  std::vector<int32_t> rows;
  ReferencePass exact;
};

Trial make_trial(Family family, uint64_t seed, DType dtype) {
  Trial trial{random_model(family, seed, dtype), random_tokens(seed, kTokens, 300), {}, {}};
  trial.rows.resize(kTokens);
  std::iota(trial.rows.begin(), trial.rows.end(), 0);
  trial.exact =
      ReferenceModel(trial.random.spec, *trial.random.weights).forward(trial.tokens, trial.rows);
  return trial;
}

LogitError worst_error(const ReferencePass& found, const Trial& trial) {
  LogitError worst;
  for (size_t row = 0; row < trial.rows.size(); ++row) {
    worst.add(logit_error(std::span<const double>(found.logits[row]),
                          std::span<const double>(trial.exact.logits[row])));
  }
  return worst;
}

// Of steps of one token with nothing before it.
LogitError simplest_error(const Trial& trial, const ReferenceArithmetic& arithmetic) {
  const ReferenceModel exact(trial.random.spec, *trial.random.weights);
  const ReferenceModel rounded(trial.random.spec, *trial.random.weights, arithmetic);
  LogitError worst;
  for (const int32_t token : random_tokens(5, 8, 300)) {
    const std::vector<int32_t> tokens = {token};
    worst.add(logit_error(std::span<const double>(rounded.last_logits(tokens)),
                          std::span<const double>(exact.last_logits(tokens))));
  }
  return worst;
}

ErrorLimit scaled(const ErrorLimit& limit, double factor) {
  return {limit.arithmetic, limit.max * factor, limit.rms * factor};
}

class ErrorLimits : public ::testing::Test {
 protected:
  // Expects that `limit` admits that arithmetic with a margin.
  static void expect_admitted(Family family, const ErrorLimit& limit, DType dtype,
                              const ReferenceArithmetic& arithmetic) {
    for (const uint64_t seed : kSeeds) {
      const Trial trial = make_trial(family, seed, dtype);
      const ReferenceModel rounded(trial.random.spec, *trial.random.weights, arithmetic);
      const LogitError error = worst_error(rounded.forward(trial.tokens, trial.rows), trial);
      EXPECT_TRUE(scaled(limit, 1.0 / kMargin).holds(error)) << describe(error, limit);
    }
  }

  // Expects that the simplest steps of that arithmetic are told by the limit of that name.
  static void expect_told(Family family, std::string_view name, DType dtype,
                          const ReferenceArithmetic& arithmetic) {
    for (const uint64_t seed : kSeeds) {
      SCOPED_TRACE(seed);
      const LogitError error =
          simplest_error({random_model(family, seed, dtype), {}, {}, {}}, arithmetic);
      EXPECT_EQ(limit_of(error, is_quantised(dtype)).arithmetic, name)
          << error.max << ", root mean square " << error.rms;
    }
  }

  // Expects that the limit told by the simplest steps admits all others.
  static void expect_consistent(Family family, DType dtype, const ReferenceArithmetic& arithmetic) {
    for (const uint64_t seed : kSeeds) {
      const Trial trial = make_trial(family, seed, dtype);
      const ErrorLimit limit = limit_of(simplest_error(trial, arithmetic), is_quantised(dtype));
      const ReferenceModel rounded(trial.random.spec, *trial.random.weights, arithmetic);
      const LogitError error = worst_error(rounded.forward(trial.tokens, trial.rows), trial);
      EXPECT_TRUE(limit.holds(error)) << describe(error, limit);
    }
  }

  // Expects that even the coarsest limit for float weights finds the altered model.
  template <typename Alter>
  static void expect_found(Family family, const Alter& alter) {
    for (const uint64_t seed : kSeeds) {
      const Trial trial = make_trial(family, seed, DType::kF32);
      RandomModel altered = trial.random;
      altered.weights = std::make_shared<MemoryWeights>(*trial.random.weights);
      std::vector<int32_t> positions(kTokens);
      std::iota(positions.begin(), positions.end(), 0);
      alter(altered, positions);
      const ReferenceModel model(altered.spec, *altered.weights);
      const LogitError error =
          worst_error(model.forward(trial.tokens, trial.rows, positions), trial);
      EXPECT_FALSE(scaled(kReducedLimit, kMargin).holds(error)) << describe(error, kReducedLimit);
    }
  }
};

class FamilyErrorLimits : public ErrorLimits, public ::testing::WithParamInterface<Family> {};

TEST_P(FamilyErrorLimits, AdmitF32) {
  expect_admitted(GetParam(), kFineLimit, DType::kF32, {24, 24, false});
}
TEST_P(FamilyErrorLimits, AdmitTf32) {
  expect_admitted(GetParam(), kFineLimit, DType::kF32, {11, 11, false});
}
TEST_P(FamilyErrorLimits, AdmitABf16Cache) {
  expect_admitted(GetParam(), kReducedLimit, DType::kF32, {24, 8, false});
}
TEST_P(FamilyErrorLimits, AdmitBf16) {
  expect_admitted(GetParam(), kReducedLimit, DType::kBF16, {8, 8, false});
}
TEST_P(FamilyErrorLimits, AdmitInt8) {
  expect_admitted(GetParam(), kQuantisedLimit, DType::kQ8_0, {8, 8, true});
}
TEST_P(FamilyErrorLimits, AdmitInt8WithFourBitWeights) {
  expect_admitted(GetParam(), kQuantisedLimit, DType::kQ4_0, {8, 8, true});
}

TEST_P(FamilyErrorLimits, SimplestStepsTellF32FromBf16) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_told(GetParam(), kFineLimit.arithmetic, dtype, {24, 24, false});
    expect_told(GetParam(), kFineLimit.arithmetic, dtype, {11, 11, false});
    expect_told(GetParam(), kReducedLimit.arithmetic, dtype, {8, 8, false});
    expect_told(GetParam(), kReducedLimit.arithmetic, dtype, {8, 24, false});
  }
}
// Of the family that R06 asks.
TEST_F(ErrorLimits, SimplestStepsOfQuantisedWeightsTellALimitForAll) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
    expect_told(Family::kLlama, kReducedLimit.arithmetic, dtype, {8, 8, false});
    expect_consistent(Family::kLlama, dtype, {24, 24, true});
    expect_consistent(Family::kLlama, dtype, {8, 8, true});
  }
}

TEST_P(FamilyErrorLimits, FindAPositionOffByOneAfterAPrefix) {
  expect_found(GetParam(), [](RandomModel&, std::vector<int32_t>& positions) {
    for (size_t i = kTokens / 2; i < positions.size(); ++i) ++positions[i];
  });
}

TEST_P(FamilyErrorLimits, FindTheOtherRopeStyle) {
  expect_found(GetParam(), [](RandomModel& model, std::vector<int32_t>&) {
    model.spec.rope.style = RopeStyle::kAdjacentPairs;
  });
}

TEST_P(FamilyErrorLimits, FindTwoHeadsMixedUp) {
  expect_found(GetParam(), [](RandomModel& model, std::vector<int32_t>&) {
    std::vector<float> rows = model.weights->values("layers.0.q.weight");
    const auto head = static_cast<std::ptrdiff_t>(rows.size()) / model.spec.num_heads;
    std::swap_ranges(rows.begin(), rows.begin() + head, rows.begin() + head);
    model.weights->set_values("layers.0.q.weight", rows);
  });
}

TEST_F(ErrorLimits, FindANormWithoutEpsilon) {
  for (const Family family : {Family::kMistral, Family::kQwen3}) {
    expect_found(
        family, [](RandomModel& model, std::vector<int32_t>&) { model.spec.rms_norm_eps = 1e-6F; });
  }
}

TEST_F(ErrorLimits, FindABiasLeftOut) {
  expect_found(Family::kQwen2,
               [](RandomModel& model, std::vector<int32_t>&) { model.spec.qkv_bias = false; });
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyErrorLimits, ::testing::ValuesIn(kFamilies),
                         [](const auto& param) { return std::string(family_name(param.param)); });

}  // namespace
}  // namespace encore::check
