// The choice among a plugin's libraries: by the processor, by loading them, or by an option.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cpu_snapshots.h"
#include "encore/loader/variants.h"

namespace encore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Manifest manifest() {
  Manifest manifest;
  manifest.path = "/plugins/cpu.plugin.yaml";
  manifest.name = "cpu";
  manifest.variant_option = "isa";
  manifest.variants = {{"amx", "amx.so", {"avx512f", "amx_tile", "amx_int8"}},
                       {"avx512", "avx512.so", {"avx2", "avx512f", "avx512_vnni"}},
                       {"avx2", "avx2.so", {"avx2", "fma"}},
                       {"generic", "generic.so", {}}};
  return manifest;
}

// Loads nothing: libraries named in `failures` fail with that message.
class VariantTest : public testing::Test {
 protected:
  Result<LoadedPlugin> choose(const CpuSnapshot& snapshot, std::string_view forced = "") {
    auto judged = judge_variants(manifest(), CpuIsa(snapshot), &failure_);
    EXPECT_TRUE(judged.ok());
    verdicts_ = std::move(judged).value();
    const LoadVariant load = [this](const std::string& library,
                                    LoadFailure* failure) -> Result<LoadedPlugin> {
      tried_.push_back(library);
      const auto found = failures_.find(library);
      if (found == failures_.end()) {
        LoadedPlugin plugin;
        plugin.path = library;
        return plugin;
      }
      *failure = {LoadCode::kProbeSelfTest, library, found->second};
      return internal_error(found->second);
    };
    return load_variant(manifest(), forced, load, verdicts_, &failure_);
  }

  std::vector<std::string> states() const {
    std::vector<std::string> list;
    for (const VariantVerdict& verdict : verdicts_) {
      list.push_back(verdict.name + " " + std::string(variant_state_name(verdict.state)));
    }
    return list;
  }

  std::map<std::string, std::string> failures_;
  std::vector<std::string> tried_;
  std::vector<VariantVerdict> verdicts_;
  LoadFailure failure_;
};

TEST_F(VariantTest, TheBestThatTheProcessorRunsIsLoadedAndNoOther) {
  const auto plugin = choose(everything());
  ASSERT_TRUE(plugin.ok());
  EXPECT_EQ(plugin->path, "/plugins/amx.so");
  EXPECT_THAT(tried_, ElementsAre("/plugins/amx.so"));
  EXPECT_THAT(states(),
              ElementsAre("amx chosen", "avx512 untried", "avx2 untried", "generic untried"));
  EXPECT_EQ(verdicts_[1].reason, "amx is better");
}

// Known fault P3: the banner lists the feature, the system does not save its registers.
TEST_F(VariantTest, WithoutTileStateTheNextLowerIsChosenAndSaysWhy) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = kAvx512State;
  EXPECT_EQ(choose(snapshot)->path, "/plugins/avx512.so");
  EXPECT_THAT(states(),
              ElementsAre("amx unsupported", "avx512 chosen", "avx2 untried", "generic untried"));
  EXPECT_EQ(verdicts_[0].reason,
            "amx_tile, amx_int8: the operating system has not enabled AMX tile register state "
            "(XCR0)");
}

TEST_F(VariantTest, WithoutZmmStateAvx2IsChosen) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = kAvxState;
  EXPECT_EQ(choose(snapshot)->path, "/plugins/avx2.so");
}

TEST_F(VariantTest, RefusedPermissionStepsDown) {
  CpuSnapshot snapshot = everything();
  snapshot.amx_permission = false;
  EXPECT_EQ(choose(snapshot)->path, "/plugins/avx512.so");
  EXPECT_THAT(verdicts_[0].reason, HasSubstr("the kernel refused this process AMX tile data"));
}

TEST_F(VariantTest, ABareProcessorGetsTheGenericOne) {
  EXPECT_EQ(choose({})->path, "/plugins/generic.so");
}

TEST_F(VariantTest, OneThatFailsIsKeptWithItsReasonAndTheNextIsTried) {
  failures_["/plugins/amx.so"] = "self-test: 2 + 2 is 5";
  EXPECT_EQ(choose(everything())->path, "/plugins/avx512.so");
  EXPECT_THAT(tried_, ElementsAre("/plugins/amx.so", "/plugins/avx512.so"));
  EXPECT_EQ(verdicts_[0].state, VariantState::kRejected);
  EXPECT_EQ(verdicts_[0].reason, "self-test: 2 + 2 is 5");
  ASSERT_TRUE(verdicts_[0].failure.has_value());
  EXPECT_EQ(verdicts_[0].failure->code, LoadCode::kProbeSelfTest);
}

TEST_F(VariantTest, IfAllFailTheBestOnesFailureIsTheAnswer) {
  for (const char* name : {"amx", "avx512", "avx2", "generic"}) {
    failures_[std::string("/plugins/") + name + ".so"] = std::string(name) + " is ill";
  }
  EXPECT_EQ(choose(everything()).status().message(), "amx is ill");
  EXPECT_EQ(failure_.path, "/plugins/amx.so");
  EXPECT_EQ(tried_.size(), 4U);
}

TEST_F(VariantTest, AForcedOneIsLoadedThoughABetterOneCouldRun) {
  EXPECT_EQ(choose(everything(), "avx2")->path, "/plugins/avx2.so");
  EXPECT_THAT(states(),
              ElementsAre("amx untried", "avx512 untried", "avx2 chosen", "generic untried"));
  EXPECT_EQ(verdicts_[0].reason, "isa is \"avx2\"");
  EXPECT_EQ(choose(everything(), "auto")->path, "/plugins/amx.so");
}

TEST_F(VariantTest, AForcedOneThatCannotRunIsAnErrorThatSaysWhy) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = kAvx512State;
  const auto plugin = choose(snapshot, "amx");
  EXPECT_EQ(plugin.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failure_.code, LoadCode::kVariantUnsupported);
  EXPECT_EQ(failure_.message,
            "isa is \"amx\", which cannot run here: amx_tile, amx_int8: the operating system has "
            "not enabled AMX tile register state (XCR0)");
  EXPECT_TRUE(tried_.empty());
}

TEST_F(VariantTest, AForcedOneThatFailsIsNotReplaced) {
  failures_["/plugins/avx512.so"] = "self-test: wrong";
  EXPECT_FALSE(choose(everything(), "avx512").ok());
  EXPECT_THAT(tried_, ElementsAre("/plugins/avx512.so"));
  EXPECT_EQ(failure_.code, LoadCode::kProbeSelfTest);
}

TEST_F(VariantTest, AnUnknownOneListsThoseThereAre) {
  EXPECT_EQ(choose(everything(), "sse9").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failure_.code, LoadCode::kVariantUnknown);
  EXPECT_EQ(failure_.message, "isa is \"sse9\"; variants of cpu: auto, amx, avx512, avx2, generic");
}

TEST_F(VariantTest, NoVariantForThisProcessorListsEachReason) {
  Manifest only = manifest();
  only.variants.resize(2);
  auto verdicts = judge_variants(only, CpuIsa({}));
  ASSERT_TRUE(verdicts.ok());
  const LoadVariant never = [](const std::string&, LoadFailure*) -> Result<LoadedPlugin> {
    ADD_FAILURE() << "nothing here can be loaded";
    return internal_error("");
  };
  const auto plugin = load_variant(only, "", never, *verdicts, &failure_);
  EXPECT_EQ(plugin.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(failure_.code, LoadCode::kManifestNoVariant);
  EXPECT_THAT(failure_.message, HasSubstr("amx: avx512f, amx_tile, amx_int8: the processor lacks"));
  EXPECT_THAT(failure_.message, HasSubstr("avx512: avx2, avx512f, avx512_vnni: the processor"));
}

}  // namespace
}  // namespace encore
