// The CUDA backend where there is no CUDA driver, and what it says before it looks for one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cuda_backend.h"

namespace encore::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST(CudaBackend, SaysWhoItIs) {
  const BackendIdentity identity = CudaBackend().identity();
  EXPECT_EQ(identity.name, "cuda");
  EXPECT_EQ(identity.vendor, "Encore");
  EXPECT_THAT(identity.build_id, StartsWith("CUDA 1"));
}

TEST(CudaBackend, OptionsAreThese) {
  const std::vector<OptionSchema> schema = CudaBackend().option_schema();
  ASSERT_EQ(schema.size(), 4U);

  EXPECT_EQ(schema[0].key, "overlap");
  EXPECT_EQ(schema[0].type, OptionType::kBool);
  EXPECT_EQ(schema[0].default_value, "true");

  EXPECT_EQ(schema[1].key, "load_threads");
  EXPECT_EQ(schema[1].type, OptionType::kInt);
  EXPECT_EQ(schema[1].default_value, "0");
  EXPECT_EQ(schema[1].minimum, 0.0);
  EXPECT_EQ(schema[1].maximum, 64.0);

  EXPECT_EQ(schema[2].key, "tuning_cache");
  EXPECT_EQ(schema[2].type, OptionType::kString);
  EXPECT_EQ(schema[2].default_value, "auto");

  EXPECT_EQ(schema[3].key, "fail_allocation");
  EXPECT_EQ(schema[3].type, OptionType::kInt);
  EXPECT_EQ(schema[3].default_value, "0");
  EXPECT_EQ(schema[3].minimum, 0.0);
  EXPECT_EQ(schema[3].maximum, 1099511627776.0);

  for (const OptionSchema& option : schema) {
    EXPECT_TRUE(option.choices.empty()) << option.key;
    EXPECT_FALSE(option.help.empty()) << option.key;
  }
}

TEST(CudaBackend, WrongOptionsAreNamedWithTheirRange) {
  CudaBackend backend;
  for (const char* value : {"-1", "65", "many", "", "3x"}) {
    const Status status = backend.init({{"load_threads", value}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << value;
    EXPECT_EQ(status.message(), "backend.options.load_threads is '" + std::string(value) +
                                    "'; it must be from 0 to 64");
  }
  const Status status = backend.init({{"fail_allocation", "1099511627777"}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("from 0 to 1099511627776"));
  EXPECT_EQ(backend.device_count(), 0);
}

TEST(CudaBackend, WithoutADriverItSaysSo) {
  if (std::filesystem::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "there is a driver";
  CudaBackend backend;
  const ProbeResult probe = backend.probe();
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.reason, "no CUDA driver");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = backend.init({});
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "no CUDA driver");
    EXPECT_EQ(backend.device_count(), 0);
  }
  backend.shutdown();
}

TEST(CudaBackend, BeforeInitThereIsNoDevice) {
  CudaBackend backend;
  EXPECT_EQ(backend.device_count(), 0);
  EXPECT_EQ(backend.device_info(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.device_memory(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.measure_limits(0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend.selftest(0).code(), StatusCode::kFailedPrecondition);
  const Status status = backend.check_model(0, small_spec(), {});
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the CUDA backend is not initialised");
}

TEST(CudaBackend, CountersStandAtZero) {
  for (const auto& [name, value] : CudaBackend().stats()) EXPECT_EQ(value, 0) << name;
}

TEST(CudaBackend, ModelsItCannotRunAreRefusedWithTheNumber) {
  const CudaBackend backend;
  const auto message = [&](int64_t ModelSpec::*member, int64_t value) {
    ModelSpec spec = small_spec();
    spec.*member = value;
    const Status status = backend.check_model(0, spec, {});
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.to_string();
    return status.message();
  };
  EXPECT_EQ(message(&ModelSpec::hidden_size, 68),
            "hidden_size is 68; the CUDA backend takes multiples of 8");
  EXPECT_EQ(message(&ModelSpec::hidden_size, 16392),
            "hidden_size is 16392; the CUDA backend takes up to 16384");
  EXPECT_EQ(message(&ModelSpec::intermediate_size, 97),
            "intermediate_size is 97; the CUDA backend takes multiples of 8");
  EXPECT_EQ(message(&ModelSpec::head_dim, 12),
            "head_dim is 12; the CUDA backend takes multiples of 8");
  EXPECT_EQ(message(&ModelSpec::head_dim, 264),
            "head_dim is 264; the CUDA backend takes up to 256");
}

}  // namespace
}  // namespace encore::cuda
