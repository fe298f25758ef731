// NVML as it is opened at run time, on a library that stands in for it; needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "nvml_library.h"

namespace encore::cuda {
namespace {

const std::vector<std::string> kStandin = {"/no/such/library.so", ENCORE_STANDIN_NVML};

TEST(NvmlTest, TellsWhatIsInUseOnTheDeviceOfABusId) {
  const Result<NvmlFunctions> nvml = open_nvml(kStandin);
  ASSERT_TRUE(nvml.ok()) << nvml.status().to_string();
  EXPECT_EQ(bytes_in_use(*nvml, "0000:1b:00.0"), 5'000'000'000);
  EXPECT_EQ(bytes_in_use(*nvml, "0000:1c:00.0"), std::nullopt);
}

TEST(NvmlTest, ThatDoesNotStartIsUnavailable) {
  ASSERT_EQ(setenv("ENCORE_STANDIN_NVML_ERROR", "1", 1), 0);
  const Result<NvmlFunctions> nvml = open_nvml(kStandin);
  ASSERT_EQ(unsetenv("ENCORE_STANDIN_NVML_ERROR"), 0);
  EXPECT_EQ(nvml.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(nvml.status().message(), testing::HasSubstr("does not start: error 9"));
}

TEST(NvmlTest, ThatIsNotThereIsUnavailable) {
  const std::vector<std::string> nowhere = {"/no/such/library.so"};
  EXPECT_EQ(open_nvml(nowhere).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace encore::cuda
