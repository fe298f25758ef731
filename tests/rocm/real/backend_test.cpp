// The ROCm backend on the real run-time library where there is no AMD GPU, and what it says before
// it looks for one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rocm_backend.h"

namespace encore::rocm {
namespace {

using ::testing::MatchesRegex;

ModelSpec small_spec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.vocab_size = 1000;
  spec.hidden_size = 64;
  spec.intermediate_size = 96;
  spec.num_layers = 1;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  return spec;
}

TEST(RocmBackend, SaysWhoItIs) {
  const BackendIdentity identity = RocmBackend().identity();
  EXPECT_EQ(identity.name, "rocm");
  EXPECT_EQ(identity.vendor, "Encore");
  EXPECT_THAT(identity.build_id, MatchesRegex("HIP [5-9]\\.[0-9]+, gfx[0-9a-f]+(, gfx[0-9a-f]+)*"));
}

TEST(RocmBackend, OptionsAreThoseOfEveryGpuAndWhoseProducts) {
  const std::vector<OptionSchema> schema = RocmBackend().option_schema();
  std::vector<std::string> keys;
  keys.reserve(schema.size());
  for (const OptionSchema& option : schema) keys.push_back(option.key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"load_threads", "fail_allocation", "tuning_cache", "blas"}));
  EXPECT_EQ(schema.back().type, OptionType::kEnum);
  EXPECT_EQ(schema.back().default_value, "auto");
  EXPECT_EQ(schema.back().choices,
            (std::vector<std::string>{"auto", "hipblaslt", "rocblas", "own"}));
}

TEST(RocmBackend, WrongOptionsAreNamedWithWhatTheyMayBe) {
  RocmBackend backend;
  Status status = backend.init({{"blas", "cublas"}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "backend.options.blas is 'cublas'; it must be auto, hipblaslt, rocblas or own");
  status = backend.init({{"load_threads", "65"}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "backend.options.load_threads is '65'; it must be from 0 to 64");
}

TEST(RocmBackend, WithoutAGpuItSaysSo) {
  if (std::filesystem::exists("/sys/class/kfd")) GTEST_SKIP() << "there is AMD's kernel module";
  RocmBackend backend;
  const ProbeResult probe = backend.probe();
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.reason, "no AMD GPU");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = backend.init({});
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "no AMD GPU");
    EXPECT_EQ(backend.device_count(), 0);
  }
  backend.shutdown();
}

TEST(RocmBackend, BeforeInitThereIsNoDevice) {
  RocmBackend backend;
  EXPECT_EQ(backend.device_count(), 0);
  EXPECT_EQ(backend.device_info(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.device_memory(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.measure_limits(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.selftest(0).code(), StatusCode::kFailedPrecondition);
  const Status status = backend.check_model(0, small_spec(), {});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the ROCm backend is not initialised");
}

TEST(RocmBackend, CountersStandAtZero) {
  std::vector<std::string> names;
  for (const auto& [name, value] : RocmBackend().stats()) {
    EXPECT_EQ(value, 0) << name;
    names.push_back(name);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"blas.rocblas", "blas.own", "memory.allocations"}));
}

TEST(RocmBackend, ModelsItCannotRunAreRefusedWithTheNumber) {
  const RocmBackend backend;
  ModelSpec spec = small_spec();
  spec.hidden_size = 68;
  EXPECT_EQ(backend.check_model(0, spec, {}).message(),
            "hidden_size is 68; the ROCm backend takes multiples of 8");
}

}  // namespace
}  // namespace encore::rocm
