// The encore binary as users run it, with the rocm plugin on the stand-in for HIP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "command_on_standin.h"

namespace encore {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RocmCommandTest : public ::testing::Test {
 protected:
  static CommandResult run(const std::vector<std::string>& arguments, int devices = 1,
                           const std::string& architecture = "gfx90a") {
    return run_on_standin(arguments, {"ENCORE_STANDIN_DEVICES=" + std::to_string(devices),
                                      "ENCORE_STANDIN_ARCH=" + architecture});
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
  const CommandResult rocm = run(command(small_config("rocm")));
  ASSERT_EQ(rocm.exit_code, 0) << rocm.err;
  const CommandResult cpu = run_encore(command(small_config("cpu")));
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
  const CommandResult result =
      run({"run", small_config("rocm"), "--prompt", "hello"}, 1, "gfx1030");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("gfx1030"));
}

}  // namespace
}  // namespace encore
