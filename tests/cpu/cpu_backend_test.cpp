#include "cpu_backend.h"

#include <gtest/gtest.h>

#include <string>

namespace encore::cpu {
namespace {

OptionValues options(const std::string& threads, const std::string& isa) {
  return {{"threads", threads}, {"isa", isa}, {"pin", "true"}};
}

TEST(CpuBackend, SelfTestPassesAtEveryLevelOfThisMachine) {
  for (const char* isa : {"generic", "avx2", "avx512", "amx"}) {
    CpuBackend backend;
    const Status status = backend.init(options("2", isa));
    if (status.code() == StatusCode::kUnavailable) continue;  // tested below
    ASSERT_TRUE(status.ok()) << status.to_string();
    const Status tested = backend.selftest(0);
    EXPECT_TRUE(tested.ok()) << isa << ": " << tested.to_string();
    EXPECT_NE(backend.device_info(0)->architecture.find(isa), std::string::npos);
  }
}

TEST(CpuBackend, LevelBeyondTheMachineIsRefusedNotLowered) {
  if (kernels::cpu_features().level == kernels::IsaLevel::kAmx) {
    GTEST_SKIP() << "this machine has every level";
  }
  CpuBackend backend;
  const Status status = backend.init(options("1", "amx"));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("backend.options.isa is amx"), std::string::npos);
}

TEST(CpuBackend, OddHeadsAreRefusedWithTheNumber) {
  CpuBackend backend;
  ModelSpec spec;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 12;
  const Status status = backend.check_model(0, spec, {});
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("head_dim is 12"), std::string::npos);
}

TEST(CpuBackend, ThereIsOneDevice) {
  CpuBackend backend;
  ASSERT_TRUE(backend.init(options("1", "auto")).ok());
  EXPECT_EQ(backend.device_count(), 1);
  EXPECT_TRUE(backend.device_info(0).ok());
  EXPECT_EQ(backend.device_info(1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_GT(backend.device_memory(0)->total_bytes, 0);
}

TEST(CpuBackend, LimitsAreMeasured) {
  CpuBackend backend;
  ASSERT_TRUE(backend.init(options("auto", "auto")).ok());
  const auto limits = backend.measure_limits(0);
  ASSERT_TRUE(limits.ok());
  EXPECT_GT(limits->read_bytes_per_s, 1e8);
  EXPECT_GT(limits->matmul_ops_per_s, 1e8);
}

}  // namespace
}  // namespace encore::cpu
