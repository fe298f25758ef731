// The encore binary on a machine without an AMD GPU: it says so, and runs nothing elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "rocm_backend.h"
#include "run_command.h"

namespace encore {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class WithoutAmdGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (rocm::RocmBackend().probe().usable) GTEST_SKIP() << "there is an AMD GPU here";
  }
  const std::string config_ = write_temporary("rocm.yaml",
                                              "model:\n"
                                              "  path: " ENCORE_GOLDEN_MODELS
                                              "/tiny_llama\n"
                                              "backend:\n"
                                              "  name: rocm\n");
  const std::string unavailable_ = config_ + ":4: backend \"rocm\" is unavailable: no AMD GPU";
};

TEST_F(WithoutAmdGpuTest, PluginIsListedWithTheReason) {
  const CommandResult result = run_encore({"plugins", "list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("rocm +[0-9.]+ +Encore +unavailable "));
  EXPECT_THAT(result.out, HasSubstr("unavailable  rocm: no AMD GPU"));
  EXPECT_THAT(result.out, ContainsRegex("rocm +installed .*encore_backend_rocm.so"));
}

TEST_F(WithoutAmdGpuTest, DevicesNamesTheReasonAndGoesOn) {
  const CommandResult result = run_encore({"devices"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rocm is unavailable: no AMD GPU\n"));
  EXPECT_THAT(result.out, HasSubstr("cpu:0"));
  EXPECT_THAT(result.out, Not(HasSubstr("rocm:0")));
}

TEST_F(WithoutAmdGpuTest, DoctorFailsTheBackend) {
  const CommandResult result = run_encore({"doctor", config_});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, HasSubstr(unavailable_));
}

TEST_F(WithoutAmdGpuTest, NothingRunsOnTheCpuInstead) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", config_, "--prompt", "hello"},
        {"bench", config_, "-p", "8", "-g", "1"}}) {
    const CommandResult result = run_encore(arguments, "hello\n");
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_EQ(result.out, "") << arguments[0];
    EXPECT_THAT(result.err, HasSubstr(unavailable_)) << arguments[0];
  }
}

// The plugin as it is built, but for the name of the run-time library, which no machine has.
std::string plugin_without_its_library() {
  std::ifstream built(ENCORE_ROCM_PLUGIN, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(built)), {});
  const std::string name = "libamdhip64.so." ENCORE_HIP_MAJOR;
  size_t changed = 0;
  for (size_t at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at + 1)) {
    bytes.replace(at, name.size(), "libamdhip64.so.0");
    ++changed;
  }
  EXPECT_GT(changed, 0U);
  const std::string path = make_folder("rocm") + "/encore_backend_rocm.so";
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(WithoutRuntimeTest, TheMissingLibraryIsNamedWithItsPackage) {
  const std::string config = write_temporary("missing.yaml",
                                             "model:\n"
                                             "  path: " ENCORE_GOLDEN_MODELS
                                             "/tiny_llama\n"
                                             "backend:\n"
                                             "  name: rocm\n"
                                             "plugins:\n"
                                             "  load: [" +
                                                 plugin_without_its_library() + "]\n");
  const CommandResult result = run_encore({"run", config, "--prompt", "hello"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("libraries not found: libamdhip64.so.0 (needed by "));
  EXPECT_THAT(result.err, HasSubstr("usually in AMD's repository: hip-runtime-amd"));
  EXPECT_THAT(result.err, HasSubstr("install them or add their folder to LD_LIBRARY_PATH"));
}

}  // namespace
}  // namespace encore
