// The encore binary on a machine without an AMD GPU: it says so, and runs nothing elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
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

// A tree with the program and the plugin as they are built, but for the name of the run-time
// library, which no machine has.
std::string tree_without_the_library() {
  namespace fs = std::filesystem;
  std::ifstream built(ENCORE_ROCM_PLUGIN, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(built)), {});
  const std::string name = "libamdhip64.so." ENCORE_HIP_MAJOR;
  size_t changed = 0;
  for (size_t at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at + 1)) {
    bytes.replace(at, name.size(), "libamdhip64.so.0");
    ++changed;
  }
  EXPECT_GT(changed, 0U);
  const fs::path tree = make_folder("rocm");
  const fs::path plugins = tree / "lib/encore/plugins";
  for (const fs::path& folder : {tree / "bin", tree / "lib", tree / "lib/encore", plugins}) {
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms::owner_all);
  }
  fs::copy_file(ENCORE_BINARY, tree / "bin/encore");
  fs::copy_file(fs::path(ENCORE_ROCM_PLUGIN).parent_path() / "rocm.plugin.yaml",
                plugins / "rocm.plugin.yaml");
  const fs::path plugin = plugins / "encore_backend_rocm.so";
  std::ofstream(plugin, std::ios::binary) << bytes;
  fs::permissions(plugin, fs::perms::owner_all);
  return tree;
}

struct ShellResult {
  int exit_code = -1;
  std::string text;  // of both streams
};

ShellResult run_shell(const std::string& command) {
  ShellResult result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.text.append(buffer.data(), got);
  }
  result.exit_code = WEXITSTATUS(::pclose(pipe));
  return result;
}

TEST(WithoutRuntimeTest, TheMissingLibraryIsNamedWithItsPackage) {
  const std::string config = write_temporary("missing.yaml",
                                             "model:\n"
                                             "  path: " ENCORE_GOLDEN_MODELS
                                             "/tiny_llama\n"
                                             "backend:\n"
                                             "  name: rocm\n");
  const std::string encore = tree_without_the_library() + "/bin/encore ";
  for (const std::string& command :
       {"run " + config + " --prompt hello", "doctor " + config, std::string("plugins list")}) {
    const ShellResult result = run_shell(encore + command);
    EXPECT_EQ(result.exit_code, command == "plugins list" ? 0 : 2) << command;
    EXPECT_THAT(result.text, HasSubstr("libraries not found: libamdhip64.so.0 (needed by "))
        << command;
    EXPECT_THAT(result.text, HasSubstr("usually in AMD's repository: hip-runtime-amd")) << command;
    EXPECT_THAT(result.text, HasSubstr("LD_LIBRARY_PATH")) << command;
  }
}

}  // namespace
}  // namespace encore
