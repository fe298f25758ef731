// Features of the processor, as far as operating system and kernel let them be used.
#include "encore/loader/cpu_isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cpu_snapshots.h"

namespace encore {
namespace {

bool usable(const CpuSnapshot& snapshot, std::string_view name) {
  const CpuIsa isa(snapshot);
  const CpuFeature* feature = isa.find(name);
  EXPECT_NE(feature, nullptr) << name;
  return feature != nullptr && feature->usable();
}

std::string why_not(const CpuSnapshot& snapshot, const std::vector<std::string>& names) {
  return CpuIsa(snapshot).why_not(names);
}

TEST(CpuIsaTest, AllAreUsableWhereAllAgree) {
  const CpuIsa isa(everything());
  for (const CpuFeature& feature : isa.features()) {
    EXPECT_TRUE(feature.usable()) << feature.name;
    EXPECT_EQ(why_not_usable(feature), "");
  }
  EXPECT_GE(isa.features().size(), 35U);
  EXPECT_EQ(isa.why_not(std::vector<std::string>{"avx2", "amx_tile"}), "");
  EXPECT_EQ(isa.why_not({}), "");
}

TEST(CpuIsaTest, EachFeatureIsItsOwnBit) {
  CpuSnapshot snapshot;
  snapshot.xcr0 = kAmxState;
  snapshot.amx_permission = true;
  snapshot.leaf7_ebx = 1U << 5;
  EXPECT_TRUE(usable(snapshot, "avx2"));
  EXPECT_FALSE(usable(snapshot, "avx"));
  snapshot.leaf1_ecx = 1U << 29;
  EXPECT_TRUE(usable(snapshot, "f16c"));
  EXPECT_FALSE(usable(snapshot, "fma"));
  snapshot.leaf1_ecx = 1U << 12;
  EXPECT_TRUE(usable(snapshot, "fma"));
  snapshot.leaf7_ecx = 1U << 11;
  EXPECT_TRUE(usable(snapshot, "avx512_vnni"));
  snapshot.leaf7_1_eax = 1U << 5;
  EXPECT_TRUE(usable(snapshot, "avx512_bf16"));
  EXPECT_FALSE(usable(snapshot, "avx_vnni"));
  snapshot.leaf7_edx = (1U << 22) | (1U << 25);
  EXPECT_TRUE(usable(snapshot, "amx_bf16"));
  EXPECT_TRUE(usable(snapshot, "amx_int8"));
  EXPECT_FALSE(usable(snapshot, "amx_tile"));
}

// Known fault P3: CPUID lists what the operating system does not save.
TEST(CpuIsaTest, AmxBitsWithoutTileStateAreNotUsable) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = kAvx512State;
  EXPECT_FALSE(usable(snapshot, "amx_tile"));
  EXPECT_TRUE(usable(snapshot, "avx512f"));
  EXPECT_EQ(why_not(snapshot, {"avx2", "amx_tile", "amx_int8"}),
            "amx_tile, amx_int8: the operating system has not enabled AMX tile register state "
            "(XCR0)");
}

TEST(CpuIsaTest, Avx512BitsWithoutZmmStateAreNotUsable) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = kAvxState | 0x60;  // opmasks and upper halves, but not ZMM16-31
  EXPECT_FALSE(usable(snapshot, "avx512_vnni"));
  EXPECT_TRUE(usable(snapshot, "avx2"));
  EXPECT_EQ(why_not(snapshot, {"avx512f"}),
            "avx512f: the operating system has not enabled AVX-512 register state (XCR0)");
}

TEST(CpuIsaTest, WithoutXsaveOnlyFeaturesWithoutRegistersRemain) {
  CpuSnapshot snapshot = everything();
  snapshot.xcr0 = 0;
  snapshot.amx_permission = false;
  EXPECT_FALSE(usable(snapshot, "avx"));
  EXPECT_FALSE(usable(snapshot, "avx2"));
  EXPECT_FALSE(usable(snapshot, "vaes"));
  EXPECT_TRUE(usable(snapshot, "sse4_2"));
  EXPECT_TRUE(usable(snapshot, "popcnt"));
}

TEST(CpuIsaTest, RefusedPermissionIsAReasonOfItsOwn) {
  CpuSnapshot snapshot = everything();
  snapshot.amx_permission = false;
  EXPECT_TRUE(usable(snapshot, "avx512_bf16"));
  EXPECT_EQ(why_not(snapshot, {"amx_bf16"}),
            "amx_bf16: the kernel refused this process AMX tile data");
  const CpuIsa isa(snapshot);
  const CpuFeature* feature = isa.find("amx_bf16");
  EXPECT_TRUE(feature->in_processor);
  EXPECT_TRUE(feature->in_system);
  EXPECT_FALSE(feature->permitted);
}

TEST(CpuIsaTest, ReasonsAreGroupedAndUnknownNamesAreSaid) {
  CpuSnapshot snapshot = everything();
  snapshot.leaf7_ebx = 0;
  EXPECT_EQ(why_not(snapshot, {"avx2", "avx1024", "fma", "avx512f"}),
            "avx2, avx512f: the processor lacks it; avx1024: this host does not know it");
}

// The kernel's own list, if there is one: what it names is there, and what it leaves out of the
// features that every kernel knows is not.
TEST(CpuIsaTest, AgreesWithTheKernelsList) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  for (const CpuFeature& feature : cpu_isa().features()) {
    const bool listed = flags.count(std::string(feature.name)) == 1;
    EXPECT_TRUE(!listed || (feature.in_processor && feature.in_system)) << feature.name;
  }
  for (const char* name : {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "fma", "f16c",
                           "avx2", "bmi1", "bmi2", "avx512f", "avx512bw", "avx512vl"}) {
    EXPECT_EQ(cpu_isa().find(name)->usable(), flags.count(name) == 1) << name;
  }
}

}  // namespace
}  // namespace encore
