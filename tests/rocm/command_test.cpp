// The encore binary as users run it, with the rocm plugin on the stand-in for HIP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "run_command.h"

namespace encore {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RocmCommandTest : public ::testing::Test {
 protected:
  // With those devices; no process may leave anything or use the run-time wrongly.
  static CommandResult run(const std::vector<std::string>& arguments, int devices = 1,
                           const std::string& architecture = "gfx90a") {
    const std::string report = make_folder("report") + "/lines";
    const CommandResult result =
        run_encore(arguments, "",
                   {"LD_LIBRARY_PATH=" ENCORE_STANDIN_FOLDER, "ENCORE_STANDIN_REPORT=" + report,
                    "ENCORE_STANDIN_DEVICES=" + std::to_string(devices),
                    "ENCORE_STANDIN_ARCH=" + architecture});
    std::ifstream file(report);
    for (std::string line; std::getline(file, line);) {
      EXPECT_THAT(line, HasSubstr("nothing left; used wrongly 0 times"));
    }
    return result;
  }
  // Limits as small as kernels on the host want them.
  static std::string config(const std::string& backend) {
    const std::string options = backend == "rocm" ? "  options: {blas: rocblas}\n" : "";
    return write_temporary(backend + ".yaml", "model:\n  path: " ENCORE_GOLDEN_MODELS
                                              "/tiny_llama\n"
                                              "backend:\n  name: " +
                                                  backend + "\n" + options +
                                                  "scheduler:\n"
                                                  "  max_running_requests: 2\n"
                                                  "  max_tokens_per_step: 32\n"
                                                  "  max_context: 64\n");
  }
};

TEST_F(RocmCommandTest, PluginIsListedAsLoaded) {
  const CommandResult result = run({"plugins", "list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("rocm +[0-9.]+ +Encore +loaded "));
}

TEST_F(RocmCommandTest, DevicesAreNamed) {
  const CommandResult result = run({"devices"}, 2);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("rocm:0"));
  EXPECT_THAT(result.out, HasSubstr("rocm:1"));
  EXPECT_THAT(result.out, HasSubstr("gfx90a"));
}

TEST_F(RocmCommandTest, TextIsThatOfTheCpu) {
  const std::vector<std::string> request = {"--prompt", "hello",         "--max-tokens",
                                            "6",        "--temperature", "0"};
  const auto command = [&](const std::string& file) {
    std::vector<std::string> arguments{"run", file};
    arguments.insert(arguments.end(), request.begin(), request.end());
    return arguments;
  };
  const CommandResult rocm = run(command(config("rocm")));
  ASSERT_EQ(rocm.exit_code, 0) << rocm.err;
  const CommandResult cpu = run_encore(command(config("cpu")));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_FALSE(cpu.out.empty());
  EXPECT_EQ(rocm.out, cpu.out);
}

TEST_F(RocmCommandTest, WithoutDevicesItSaysSo) {
  const CommandResult result = run({"plugins", "list"}, 0);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("rocm +[0-9.]+ +Encore +unavailable "));
}

TEST_F(RocmCommandTest, DeviceThatTheBuildHasNoCodeForIsRefused) {
  const CommandResult result = run({"run", config("rocm"), "--prompt", "hello"}, 1, "gfx1030");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("gfx1030"));
}

}  // namespace
}  // namespace encore
