// The encore binary on a machine without a CUDA driver: it says so, and runs nothing elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda_backend.h"
#include "run_command.h"

namespace encore {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class WithoutDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::CudaBackend().probe().usable) GTEST_SKIP() << "there is a GPU here";
  }
  const std::string config_ = write_temporary("cuda.yaml",
                                              "model:\n"
                                              "  path: " ENCORE_GOLDEN_MODELS
                                              "/tiny_llama\n"
                                              "backend:\n"
                                              "  name: cuda\n");
  const std::string unavailable_ = config_ + ":4: backend \"cuda\" is unavailable: no CUDA driver";
};

TEST_F(WithoutDriverTest, PluginIsListedWithTheReason) {
  const CommandResult result = run_encore({"plugins", "list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("cuda +[0-9.]+ +Encore +unavailable "));
  EXPECT_THAT(result.out, HasSubstr("unavailable  cuda: no CUDA driver"));
  EXPECT_THAT(result.out, ContainsRegex("cuda +installed .*encore_backend_cuda.so"));
  EXPECT_THAT(result.out, ContainsRegex("cpu +[0-9.]+ +Encore +loaded "));
}

TEST_F(WithoutDriverTest, DevicesNamesTheReasonAndGoesOn) {
  const CommandResult result = run_encore({"devices"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cuda is unavailable: no CUDA driver\n"));
  EXPECT_THAT(result.out, HasSubstr("cpu:0"));
  EXPECT_THAT(result.out, Not(HasSubstr("cuda:0")));
}

TEST_F(WithoutDriverTest, DoctorFailsTheBackend) {
  const CommandResult result = run_encore({"doctor", config_});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.out, HasSubstr("FAIL  cuda        " + unavailable_));
  EXPECT_THAT(result.out, HasSubstr("skip  all         there is no backend to ask"));
}

TEST_F(WithoutDriverTest, NothingRunsOnTheCpuInstead) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", config_, "--prompt", "hello"},
        {"chat", config_},
        {"bench", config_, "-p", "8", "-g", "1"}}) {
    const CommandResult result = run_encore(arguments, "hello\n");
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_EQ(result.out, "") << arguments[0];
    EXPECT_THAT(result.err, HasSubstr(unavailable_)) << arguments[0];
  }
}

}  // namespace
}  // namespace encore
