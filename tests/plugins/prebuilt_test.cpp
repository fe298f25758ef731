// Plugins built once, with an older and a newer minor version of the ABI: this host runs both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "encore/loader/plugin_loader.h"
#include "fake_model.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

using testing::HasSubstr;

class PrebuiltPluginTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "the prebuilt plugins are for x86-64";
#endif
    auto plugin =
        load_plugin(std::string(ENCORE_TEST_PREBUILT_DIR) + "/" + GetParam() + ".so", test_host());
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    plugin_ = *std::move(plugin);
    ASSERT_TRUE(plugin_.backend->init({}).ok());
    auto model = plugin_.backend->load_model(0, small_spec(), weights_, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = *std::move(model);
    auto kv = model_->create_kv({.num_pages = 8, .page_size = 4});
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = *std::move(kv);
  }

  void expect_first_logit(Runner& runner) {
    OneRequest step({7}, 0);
    const Result<Ticket> ticket = runner.submit(step.batch(), step.output());
    ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
    ASSERT_TRUE(runner.wait(*ticket, -1).ok());
    EXPECT_EQ(step.logits[3], fake_logit(fake_hash(0, 7), 3));
  }

  LoadedPlugin plugin_;
  MemoryWeights weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
};

TEST_P(PrebuiltPluginTest, RunsInEveryMode) {
  const CaptureOptions options = small_capture();
  const auto eager = model_->create_eager(*kv_, options);
  ASSERT_TRUE(eager.ok()) << eager.status().to_string();
  expect_first_logit(*eager->runner);
  const auto prefill = model_->capture_prefill(*kv_, options);
  ASSERT_TRUE(prefill.ok()) << prefill.status().to_string();
  expect_first_logit(*prefill->runner);
  const auto decode = model_->capture_decode(*kv_, options);
  ASSERT_TRUE(decode.ok()) << decode.status().to_string();
  ASSERT_EQ(decode->report.buckets.size(), 3U);
  EXPECT_EQ(decode->report.buckets[0].bucket, 4);
  EXPECT_EQ(decode->report.buckets[2].bucket, 1);
  expect_first_logit(*decode->runner);
}

TEST_P(PrebuiltPluginTest, LacksWhatCameLater) {
  EXPECT_THAT(model_->fail_capture(4, Reason::kOutOfMemory).to_string(),
              HasSubstr("does not offer encore.fault_injection"));
}

INSTANTIATE_TEST_SUITE_P(Versions, PrebuiltPluginTest, testing::Values("fake_1_0", "fake_1_99"),
                         [](const auto& version) { return std::string(version.param); });

}  // namespace
}  // namespace encore
