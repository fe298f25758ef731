// Steps larger than the kernels take are refused when a runner is made, not when one comes.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "driver/runner_set.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "reference/random_model.h"

namespace encore::rocm {
namespace {

class RocmStepLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto plugin = load_plugin(ENCORE_ROCM_PLUGIN, {"test", {}}, nullptr, {.probe = false});
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    plugin_ = std::make_unique<LoadedPlugin>(std::move(plugin).value());
    const OptionValues given{{"blas", "own"}, {"tuning_cache", "off"}};
    auto options = check_options(plugin_->backend->option_schema(), given);
    ASSERT_TRUE(options.ok()) << options.status().to_string();
    const Status ready = plugin_->backend->init(*options);
    ASSERT_TRUE(ready.ok()) << ready.to_string();
  }

  // Makes an eager runner for such steps of a model whose 8 heads share a KV head of 64.
  Status make_runner(int32_t max_tokens, int32_t max_requests) {
    check::ModelOverrides sizes;
    sizes.num_layers = 1;
    sizes.num_heads = 8;
    sizes.num_kv_heads = 1;
    sizes.head_dim = 64;
    const check::RandomModel files =
        check::random_model(check::Family::kLlama, 1, DType::kBF16, sizes);
    ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            plugin_->backend->load_model(0, files.spec, *files.weights, {}));
    check::RunnerSetOptions options = check::small_options();
    options.kv.dtype = DType::kBF16;
    options.capture.limits.max_tokens = max_tokens;
    options.capture.limits.max_requests = max_requests;
    return check::make_runner_set(*model, options).status();
  }

  void expect_refused(int32_t max_tokens, int32_t max_requests, const std::string& message) {
    const Status status = make_runner(max_tokens, max_requests);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  }

  std::unique_ptr<LoadedPlugin> plugin_;
};

TEST_F(RocmStepLimitsTest, TooManyTokensAreRefusedWithTheMost) {
  expect_refused(81921, 1,
                 "max_tokens is 81921; attention takes up to 81920 in a step, with max_requests 1: "
                 "lower scheduler.max_tokens_per_step");
  expect_refused(81872, 8,
                 "max_tokens is 81872; attention takes up to 81871 in a step, with max_requests 8: "
                 "lower scheduler.max_tokens_per_step");
}

TEST_F(RocmStepLimitsTest, TooManyRequestsAreRefusedWithTheMost) {
  expect_refused(2048, 1025,
                 "max_requests is 1025; a GPU takes up to 1024 in a step: lower "
                 "scheduler.max_running_requests");
}

TEST_F(RocmStepLimitsTest, StepsWithinTheLimitsAreTaken) {
  const Status status = make_runner(64, 8);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace
}  // namespace encore::rocm
