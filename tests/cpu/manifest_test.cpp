// The manifest and the kernels must say the same of what each level needs: a variant that asks for
// too little crashes, one that asks for too much is not used.
#include "encore/loader/manifest.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "encore/backend_abi.h"
#include "kernels/cpu/cpu_features.h"

namespace encore::cpu {
namespace {

using kernels::CpuidSnapshot;
using kernels::IsaLevel;

struct Bit {
  uint32_t CpuidSnapshot::*word;
  int index;
};

// Intel's and AMD's manuals, not the code under test.
const std::map<std::string, Bit>& bits() {
  static const std::map<std::string, Bit> all = {{"fma", {&CpuidSnapshot::leaf1_ecx, 12}},
                                                 {"popcnt", {&CpuidSnapshot::leaf1_ecx, 23}},
                                                 {"avx", {&CpuidSnapshot::leaf1_ecx, 28}},
                                                 {"f16c", {&CpuidSnapshot::leaf1_ecx, 29}},
                                                 {"avx2", {&CpuidSnapshot::leaf7_ebx, 5}},
                                                 {"avx512f", {&CpuidSnapshot::leaf7_ebx, 16}},
                                                 {"avx512dq", {&CpuidSnapshot::leaf7_ebx, 17}},
                                                 {"avx512bw", {&CpuidSnapshot::leaf7_ebx, 30}},
                                                 {"avx512vl", {&CpuidSnapshot::leaf7_ebx, 31}},
                                                 {"avx512_vnni", {&CpuidSnapshot::leaf7_ecx, 11}},
                                                 {"avx512_bf16", {&CpuidSnapshot::leaf7_1_eax, 5}},
                                                 {"amx_bf16", {&CpuidSnapshot::leaf7_edx, 22}},
                                                 {"amx_tile", {&CpuidSnapshot::leaf7_edx, 24}},
                                                 {"amx_int8", {&CpuidSnapshot::leaf7_edx, 25}}};
  return all;
}

// The level of a processor with these features and no other, all register state enabled.
IsaLevel level_with(const std::vector<std::string>& features) {
  CpuidSnapshot snapshot;
  snapshot.xcr0 = 0x600E7;
  snapshot.amx_permission = true;
  for (const std::string& feature : features) {
    const auto found = bits().find(feature);
    EXPECT_NE(found, bits().end()) << feature;
    if (found != bits().end()) snapshot.*found->second.word |= 1U << found->second.index;
  }
  return kernels::features_of(snapshot).level;
}

class CpuManifest : public testing::Test {
 protected:
  void SetUp() override {
    auto manifest = read_manifest(ENCORE_PLUGIN_FOLDER "/cpu.plugin.yaml");
    ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
    manifest_ = std::move(manifest).value();
  }

  Manifest manifest_;
};

TEST_F(CpuManifest, NamesTheFourLevelsBestFirst) {
  EXPECT_EQ(manifest_.name, "cpu");
  EXPECT_EQ(manifest_.vendor, "Encore");
  EXPECT_EQ(manifest_.version, ENCORE_VERSION);
  EXPECT_EQ(manifest_.abi_major, ENCORE_ABI_MAJOR);
  EXPECT_EQ(manifest_.abi_minor, ENCORE_ABI_MINOR);
  EXPECT_EQ(manifest_.variant_option, "isa");
  std::vector<std::string> names;
  for (const ManifestVariant& variant : manifest_.variants) {
    names.push_back(variant.name);
    EXPECT_EQ(variant.library, "encore_backend_cpu_" + variant.name + ".so");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"amx", "avx512", "avx2", "generic"}));
}

TEST_F(CpuManifest, RequiresExactlyWhatTheLevelNeeds) {
  for (const ManifestVariant& variant : manifest_.variants) {
    EXPECT_STREQ(isa_level_name(level_with(variant.requirements)), variant.name.c_str());
    for (size_t i = 0; i < variant.requirements.size(); ++i) {
      std::vector<std::string> rest = variant.requirements;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_STRNE(isa_level_name(level_with(rest)), variant.name.c_str())
          << variant.name << " does without " << variant.requirements[i];
    }
  }
}

}  // namespace
}  // namespace encore::cpu
