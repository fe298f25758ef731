// Each library of the CPU plugin that this machine runs, and what it says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plugin_test_support.h"

namespace encore::cpu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string>& levels() {
  static const std::vector<std::string> all = {"generic", "avx2", "avx512", "amx"};
  return all;
}

size_t rank_of(const std::string& level) {
  return static_cast<size_t>(std::find(levels().begin(), levels().end(), level) - levels().begin());
}

std::vector<std::string> isa_choices(const Backend& backend) {
  for (const OptionSchema& option : backend.option_schema()) {
    if (option.key == "isa") return option.choices;
  }
  return {};
}

TEST(CpuVariants, TheGenericOneRunsEverywhere) {
  const std::vector<VariantVerdict> variants = usable_variants();
  ASSERT_FALSE(variants.empty());
  EXPECT_EQ(variants.back().name, "generic");
}

TEST(CpuVariants, EachPassesItsSelfTestAtEachOfItsLevels) {
  for (const VariantVerdict& variant : usable_variants()) {
    const auto backend = load_variant_at(variant.library);
    ASSERT_NE(backend, nullptr);
    for (const std::string& isa : isa_choices(*backend)) {
      const Status ready = backend->init(options("2", isa));
      ASSERT_TRUE(ready.ok()) << variant.name << ": " << ready.to_string();
      const Status tested = backend->selftest(0);
      EXPECT_TRUE(tested.ok()) << variant.name << " at " << isa << ": " << tested.to_string();
      const auto info = backend->device_info(0);
      ASSERT_TRUE(info.ok());
      EXPECT_THAT(info->architecture, StartsWith("x86-64 " + (isa == "auto" ? variant.name : isa)));
      backend->shutdown();
    }
  }
}

TEST(CpuVariants, TheBuildIdNamesTheVariant) {
  for (const VariantVerdict& variant : usable_variants()) {
    const auto backend = load_variant_at(variant.library);
    ASSERT_NE(backend, nullptr);
    EXPECT_EQ(backend->identity().name, "cpu");
    EXPECT_THAT(backend->identity().build_id, StartsWith(variant.name + ", "));
  }
}

TEST(CpuVariants, TheSchemaOffersTheLevelsUpToTheVariantsOwn) {
  for (const VariantVerdict& variant : usable_variants()) {
    const auto backend = load_variant_at(variant.library);
    ASSERT_NE(backend, nullptr);
    std::vector<std::string> expected(
        levels().begin(),
        levels().begin() + static_cast<std::ptrdiff_t>(rank_of(variant.name)) + 1);
    expected.insert(expected.begin(), "auto");
    EXPECT_EQ(isa_choices(*backend), expected) << variant.name;
  }
}

TEST(CpuVariants, ALevelAboveTheVariantIsRefusedWithItsName) {
  const std::vector<VariantVerdict> variants = usable_variants();
  const auto backend = load_variant_at(variants.back().library);
  ASSERT_NE(backend, nullptr);
  const Status refused = backend->init(options("1", "avx2"));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(),
              HasSubstr("backend.options.isa is avx2; this library holds kernels up to generic"));
  EXPECT_TRUE(backend->init(options("1", "generic")).ok());
}

}  // namespace
}  // namespace encore::cpu
