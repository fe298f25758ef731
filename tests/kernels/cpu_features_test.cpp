#include "kernels/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <string>

namespace encore::kernels {
namespace {

constexpr uint64_t kAvxState = 0x7;  // x87, SSE, AVX
constexpr uint64_t kAvx512State = 0xE7;
constexpr uint64_t kAmxState = 0x600E7;

// A processor with everything, and an operating system that enables and grants it.
CpuidSnapshot complete() {
  CpuidSnapshot snapshot;
  snapshot.leaf1_ecx = (1U << 12) | (1U << 23) | (1U << 27) | (1U << 28) | (1U << 29);
  snapshot.leaf7_ebx = (1U << 5) | (1U << 16) | (1U << 17) | (1U << 30) | (1U << 31);
  snapshot.leaf7_ecx = 1U << 11;
  snapshot.leaf7_edx = (1U << 22) | (1U << 24) | (1U << 25);
  snapshot.leaf7_1_eax = (1U << 4) | (1U << 5);
  snapshot.xcr0 = kAmxState;
  snapshot.amx_permission = true;
  return snapshot;
}

TEST(CpuFeaturesTest, EverythingGivesAmx) {
  const CpuFeatures features = features_of(complete());
  EXPECT_EQ(features.level, IsaLevel::kAmx);
  EXPECT_TRUE(features.avx512_bf16);
  EXPECT_TRUE(features.avx_vnni);
  EXPECT_STREQ(features.reason, "");
}

TEST(CpuFeaturesTest, TileStateOffStepsDownToAvx512) {
  CpuidSnapshot snapshot = complete();
  for (const uint64_t state : {kAvx512State, kAvx512State | 0x20000, kAvx512State | 0x40000}) {
    snapshot.xcr0 = state;
    const CpuFeatures features = features_of(snapshot);
    EXPECT_EQ(features.level, IsaLevel::kAvx512) << state;
    EXPECT_NE(std::string(features.reason).find("AMX tile state"), std::string::npos);
  }
}

TEST(CpuFeaturesTest, RefusedTilePermissionStepsDownToAvx512) {
  CpuidSnapshot snapshot = complete();
  snapshot.amx_permission = false;
  const CpuFeatures features = features_of(snapshot);
  EXPECT_EQ(features.level, IsaLevel::kAvx512);
  EXPECT_NE(std::string(features.reason).find("refused"), std::string::npos);
}

TEST(CpuFeaturesTest, ZmmStateOffStepsDownToAvx2) {
  CpuidSnapshot snapshot = complete();
  for (const uint64_t state : {kAvxState, kAvxState | 0x20, kAvxState | 0x60, kAvxState | 0xC0}) {
    snapshot.xcr0 = state;
    const CpuFeatures features = features_of(snapshot);
    EXPECT_EQ(features.level, IsaLevel::kAvx2) << state;
    EXPECT_FALSE(features.avx512_bf16);
    EXPECT_NE(std::string(features.reason).find("AVX-512 register state"), std::string::npos);
  }
}

TEST(CpuFeaturesTest, YmmStateOffStepsDownToGeneric) {
  CpuidSnapshot snapshot = complete();
  for (const uint64_t state : {uint64_t{0}, uint64_t{0x3}}) {
    snapshot.xcr0 = state;
    const CpuFeatures features = features_of(snapshot);
    EXPECT_EQ(features.level, IsaLevel::kGeneric) << state;
    EXPECT_FALSE(features.avx_vnni);
    EXPECT_NE(std::string(features.reason).find("AVX register state"), std::string::npos);
  }
}

// Each bit that a level needs, taken away alone.
TEST(CpuFeaturesTest, AMissingInstructionSetStepsDown) {
  const auto level_without = [](uint32_t CpuidSnapshot::*word, int bit) {
    CpuidSnapshot snapshot = complete();
    snapshot.*word &= ~(1U << bit);
    return features_of(snapshot).level;
  };
  for (const int bit : {22, 24, 25}) {
    EXPECT_EQ(level_without(&CpuidSnapshot::leaf7_edx, bit), IsaLevel::kAvx512) << bit;
  }
  EXPECT_EQ(level_without(&CpuidSnapshot::leaf7_1_eax, 5), IsaLevel::kAvx512);
  for (const int bit : {16, 17, 30, 31}) {
    EXPECT_EQ(level_without(&CpuidSnapshot::leaf7_ebx, bit), IsaLevel::kAvx2) << bit;
  }
  EXPECT_EQ(level_without(&CpuidSnapshot::leaf7_ecx, 11), IsaLevel::kAvx2);
  EXPECT_EQ(level_without(&CpuidSnapshot::leaf7_ebx, 5), IsaLevel::kGeneric);
  for (const int bit : {12, 23, 28, 29}) {
    EXPECT_EQ(level_without(&CpuidSnapshot::leaf1_ecx, bit), IsaLevel::kGeneric) << bit;
  }
}

TEST(CpuFeaturesTest, ThisProcessorIsReadWithoutASignal) {
  const CpuidSnapshot snapshot = read_cpuid();
  EXPECT_EQ(features_of(snapshot).level, cpu_features().level);
  EXPECT_TRUE(!snapshot.amx_permission || (snapshot.xcr0 & 0x60000) == 0x60000);
}

}  // namespace
}  // namespace encore::kernels
