#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/hf_config.h"
#include "model/printable.h"
#include "test_files.h"

namespace encore {
namespace {

const nlohmann::json& reference() {
  static const nlohmann::json tables =
      nlohmann::json::parse(read_file(ENCORE_MODEL_TEST_DATA "/rope_tables.json"));
  return tables;
}

// The reference computes in float32: powers whose exponent is rounded to float are off by up to
// 2^-24 * log(theta), and the blends of llama3 and yarn add a few units in the last place.
constexpr double kTolerance = 3e-6;

TEST(RopeTableTest, EqualsTransformers) {
  ASSERT_GE(reference().size(), 17U);
  for (const nlohmann::json& entry : reference()) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    auto config = read_hf_config(entry["config"].dump(), "config.json");
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    const RopeSpec& rope = config->spec.rope;
    EXPECT_EQ(rope.style, RopeStyle::kHalfSplit);
    EXPECT_FLOAT_EQ(rope.attention_scale, entry["attention_scale"].get<float>());
    const auto expected = entry["inv_freq"].get<std::vector<double>>();
    ASSERT_EQ(rope.inv_freq.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(rope.inv_freq[i], expected[i], kTolerance * expected[i]) << "pair " << i;
    }
  }
}

TEST(RopeTableTest, UnknownTypesAreRefusedByName) {
  for (const char* name : {"foo", "longrope", "su", "mrope", "proportional", ""}) {
    const auto scaling = parse_rope_scaling(name, "file 'c'");
    ASSERT_FALSE(scaling.ok()) << name;
    EXPECT_EQ(scaling.status().code(), StatusCode::kUnimplemented);
    EXPECT_NE(scaling.status().message().find(printable(name)), std::string::npos);
    EXPECT_NE(scaling.status().message().find("file 'c'"), std::string::npos);
  }
}

TEST(RopeTableTest, DivisorsDivide) {
  RopeParameters p;
  p.divisors = {1.0, 2.0, 4.0, 8.0};
  const auto divided = make_rope(p, 8, RopeStyle::kAdjacentPairs, "f");
  p.divisors.clear();
  const auto plain = make_rope(p, 8, RopeStyle::kAdjacentPairs, "f");
  ASSERT_TRUE(divided.ok() && plain.ok());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(divided->inv_freq[i] * static_cast<float>(1 << i), plain->inv_freq[i]);
  }
}

TEST(RopeTableTest, ParametersOutOfRangeAreRefused) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const RopeParameters& p) {
    return make_rope(p, 64, RopeStyle::kHalfSplit, "f").status().code() ==
           StatusCode::kInvalidArgument;
  };
  for (const double bad : {0.0, 1.0, -10000.0, infinity, std::nan("")}) {
    RopeParameters p;
    p.theta = bad;
    EXPECT_TRUE(refused(p)) << bad;
  }
  for (const double bad : {0.0, -4.0, infinity, std::nan("")}) {
    RopeParameters p;
    p.scaling = RopeScaling::kLinear;
    p.factor = bad;
    EXPECT_TRUE(refused(p)) << bad;
    p.scaling = RopeScaling::kYarn;
    p.factor = 4.0;
    p.original_context = bad;
    EXPECT_TRUE(refused(p)) << bad;
    p.original_context = 4096;
    p.attention_factor = bad;
    EXPECT_TRUE(refused(p)) << bad;
  }
  RopeParameters p;
  p.scaling = RopeScaling::kLlama3;
  p.original_context = 8192;
  p.low_freq_factor = p.high_freq_factor;  // the blend would divide by zero
  EXPECT_TRUE(refused(p));
  RopeParameters factors;
  factors.divisors.assign(32, 0.0);
  EXPECT_TRUE(refused(factors));
  factors.divisors.assign(31, 1.0);
  EXPECT_TRUE(refused(factors));
}

}  // namespace
}  // namespace encore
