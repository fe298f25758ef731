// What a plugin in plain C claims when asked, true and false: the host believes nothing that is out
// of range. Its table and schema are in hostile_negotiation_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "encore/loader/plugin_loader.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

using testing::HasSubstr;

// The C plugin, told what to lie about.
class PluginClaimsTest : public testing::Test {
 public:
  ~PluginClaimsTest() override { ::unsetenv("ENCORE_TEST_LIE"); }

 protected:
  static void lie(const char* about) { ::setenv("ENCORE_TEST_LIE", about, 1); }

  // Loads honestly; lies begin after.
  void start() {
    ::unsetenv("ENCORE_TEST_LIE");
    Result<LoadedPlugin> plugin =
        load_plugin(test_plugin("c"), test_host(), nullptr, {.probe = false});
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    backend_ = std::move(plugin->backend);
    ASSERT_TRUE(backend_->init({}).ok());
  }

  void start_model() {
    ASSERT_NO_FATAL_FAILURE(start());
    auto model = backend_->load_model(0, small_spec(), weights_, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = std::move(model).value();
    auto kv = model_->create_kv({.num_pages = 8, .page_size = 4});
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = std::move(kv).value();
  }

  std::string capture_lying(const char* about) {
    lie(about);
    const auto capture = model_->create_eager(*kv_, small_capture());
    return capture.ok() ? "accepted" : capture.status().message();
  }

  std::unique_ptr<Backend> backend_;
  MemoryWeights weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
};

TEST_F(PluginClaimsTest, HonestOneInPlainCIsAccepted) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  EXPECT_EQ(backend_->identity().name, "c");
  EXPECT_EQ(backend_->option_schema().at(0).key, "speed");
  EXPECT_TRUE(backend_->probe().usable);
  EXPECT_EQ(backend_->probe().reason, "café\xEF\xBF\xBD");
  EXPECT_EQ(model_->create_eager(*kv_, small_capture())->report.static_bytes, 20);
  EXPECT_TRUE(backend_->stats().empty());
  EXPECT_EQ(backend_->selftest(0).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(backend_->measure_limits(0).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(model_->check_guards().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(model_->set_layer_observer([](const LayerOutput&) {}).code(),
            StatusCode::kUnimplemented);
  EXPECT_TRUE(model_->set_layer_observer({}).ok());
}

TEST_F(PluginClaimsTest, ErrorsAreMadePresentable) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("code_unknown");
  EXPECT_EQ(backend_->init({}).to_string(), "internal: strange (unknown error code 99)");
  lie("no_message");
  EXPECT_EQ(backend_->init({}).to_string(), "internal: no message was given");
  lie("message_size");
  EXPECT_EQ(backend_->init({}).message().size(), 996U);
  lie("native");
  EXPECT_EQ(backend_->init({}).to_string(),
            "internal: illegal address (native code 700) (the device is lost to this process)");
  EXPECT_EQ(backend_->init({}).scope(), Scope::kDevice);
  lie("scope_unknown");
  EXPECT_EQ(backend_->init({}).to_string(), "internal: strange (a new process is needed)");
}

TEST_F(PluginClaimsTest, SizesOfTextAreBounded) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("reason_size");
  EXPECT_LT(backend_->probe().reason.size(), 4000U);
  lie("id_size");
  EXPECT_EQ(backend_->device_info(0)->id.size(), 128U);
}

TEST_F(PluginClaimsTest, CountsAndMemoryAreChecked) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("device_count");
  EXPECT_EQ(backend_->device_count(), 0);
  lie("memory");
  EXPECT_THAT(backend_->device_memory(0).status().message(), HasSubstr("total_bytes = -1"));
  lie("null_model");
  EXPECT_THAT(backend_->load_model(0, small_spec(), weights_, {}).status().message(),
              HasSubstr("without a model"));
}

TEST_F(PluginClaimsTest, WeightCallbacksCheckTheIndex) {
  ASSERT_NO_FATAL_FAILURE(start());
  lie("read_outside");
  EXPECT_THAT(backend_->load_model(0, small_spec(), weights_, {}).status().message(),
              HasSubstr("weight index is 2; the model has 2 weights"));
  lie("map_outside");
  EXPECT_TRUE(backend_->load_model(0, small_spec(), weights_, {}).ok());
}

TEST_F(PluginClaimsTest, ModelAndKvInfoAreChecked) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  lie("model_info");
  EXPECT_EQ(model_->info().weight_bytes, 0);
  const KvOptions options = {.num_pages = 8, .page_size = 4};
  lie("null_kv");
  EXPECT_THAT(model_->create_kv(options).status().message(), HasSubstr("without a KV cache"));
  lie("kv_pages");
  EXPECT_THAT(model_->create_kv(options).status().message(),
              HasSubstr("num_pages = 1000000; expected the 8 asked for"));
  lie("kv_bytes");
  EXPECT_THAT(model_->create_kv(options).status().message(), HasSubstr("page_bytes = -16"));
}

TEST_F(PluginClaimsTest, CaptureReportIsChecked) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  EXPECT_EQ(capture_lying("nothing"), "accepted");
  EXPECT_THAT(capture_lying("report_null"), HasSubstr("a capture report = null"));
  EXPECT_THAT(capture_lying("runner_null"), HasSubstr("without a runner"));
  EXPECT_THAT(capture_lying("buckets_null"), HasSubstr("buckets = null"));
  EXPECT_THAT(capture_lying("buckets_count"), HasSubstr("a number of buckets = 1844674407370955"));
  EXPECT_THAT(capture_lying("buckets_stride"), HasSubstr("a stride of buckets"));
  EXPECT_THAT(capture_lying("bucket"), HasSubstr("a bucket = 0"));
  EXPECT_THAT(capture_lying("bucket_bytes"), HasSubstr("arena_bytes = -1"));
  EXPECT_THAT(capture_lying("report_bytes"), HasSubstr("static_bytes = 9223372036854775807"));
  lie("bucket_reason");
  const BucketReport bucket = model_->create_eager(*kv_, small_capture())->report.buckets.at(0);
  EXPECT_EQ(bucket.reason, Reason::kUnsupported);
  EXPECT_THAT(bucket.message, HasSubstr("unknown reason 12345"));
  lie("report_size");  // a struct of no fields: everything reads as zero
  EXPECT_EQ(model_->create_eager(*kv_, small_capture())->report.static_bytes, 0);
}

TEST_F(PluginClaimsTest, VerdictOutOfRangeIsUnsupported) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  const auto capture = model_->create_eager(*kv_, small_capture());
  OneRequest step({1}, 0);
  for (const char* about : {"verdict_reason", "verdict_bucket", "check_fails"}) {
    lie(about);
    const RunnerCheck check = capture->runner->check(step.batch(), step.output());
    EXPECT_EQ(check.reason, Reason::kUnsupported) << about;
    EXPECT_EQ(check.bucket, 0) << about;
  }
}

TEST_F(PluginClaimsTest, KvCacheOfAnotherModelIsRefused) {
  ASSERT_NO_FATAL_FAILURE(start_model());
  class StrangerKv : public KvCache {
   public:
    KvInfo info() const override { return {}; }
    Status copy_pages(std::span<const PageCopy> /*copies*/) override { return {}; }
    Status read_page(int32_t /*page*/, std::span<std::byte> /*out*/) const override { return {}; }
  } stranger;
  EXPECT_THAT(model_->create_eager(stranger, small_capture()).status().message(),
              HasSubstr("not created by this model"));
}

TEST_F(PluginClaimsTest, NothingRunsBeforeInit) {
  ::unsetenv("ENCORE_TEST_LIE");
  const Result<LoadedPlugin> plugin =
      load_plugin(test_plugin("c"), test_host(), nullptr, {.probe = false});
  ASSERT_TRUE(plugin.ok());
  EXPECT_EQ(plugin->backend->device_count(), 0);
  EXPECT_EQ(plugin->backend->device_info(0).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace encore
