#include "encore/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_model.h"

namespace encore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    kv_ = std::move(model_.create_kv({.num_pages = 4, .page_size = 4})).value();
    options_.capture.limits.max_requests = 4;
    options_.capture.limits.max_tokens = 64;
  }

  fake::FakeModel model_;
  std::unique_ptr<KvCache> kv_;
  GraphsOptions options_;
};

TEST_F(CaptureTest, EagerComesFirstThenPrefillThenDecode) {
  const auto graphs = capture_graphs(model_, *kv_, options_);
  ASSERT_TRUE(graphs.ok());
  EXPECT_THAT(model_.calls, ElementsAre("eager", "prefill_graph", "decode_graph"));
  EXPECT_EQ(graphs->eager.runner->kind(), RunnerKind::kEager);
  EXPECT_EQ(graphs->prefill.runner->kind(), RunnerKind::kPrefillGraph);
  EXPECT_EQ(graphs->prefill.mode, PrefillMode::kFull);
  EXPECT_EQ(graphs->decode.runner->kind(), RunnerKind::kDecodeGraph);
  EXPECT_EQ(graphs->decode.graph_memory_bytes, 300);
}

TEST_F(CaptureTest, DecodeMayComeBeforePrefill) {
  options_.decode_first = true;
  ASSERT_TRUE(capture_graphs(model_, *kv_, options_).ok());
  EXPECT_THAT(model_.calls, ElementsAre("eager", "decode_graph", "prefill_graph"));
}

TEST_F(CaptureTest, DraftModelCapturesItsOwnDecode) {
  options_.capture_decode = false;
  const auto graphs = capture_graphs(model_, *kv_, options_);
  ASSERT_TRUE(graphs.ok());
  EXPECT_EQ(graphs->decode.runner, nullptr);
  EXPECT_THAT(model_.calls, ElementsAre("eager", "prefill_graph"));
  const auto decode = capture_decode_graph(model_, *kv_, options_.capture);
  ASSERT_TRUE(decode.ok());
  EXPECT_EQ(decode->runner->kind(), RunnerKind::kDecodeGraph);
}

TEST_F(CaptureTest, WithoutPrefillGraphTheEagerRunnerPrefills) {
  options_.capture.prefill_mode = PrefillMode::kOff;
  const auto graphs = capture_graphs(model_, *kv_, options_);
  ASSERT_TRUE(graphs.ok());
  EXPECT_EQ(graphs->prefill.runner, graphs->eager.runner);
  EXPECT_EQ(graphs->prefill.mode, PrefillMode::kOff);
  EXPECT_EQ(capture_prefill_graph(model_, *kv_, options_.capture).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CaptureTest, BucketsAreCompletedAndReportedLargestFirst) {
  options_.capture.decode_buckets = {3, 113, 1};
  const auto graphs = capture_graphs(model_, *kv_, options_);
  ASSERT_TRUE(graphs.ok());
  std::vector<int32_t> sizes;
  for (const BucketReport& report : graphs->decode.buckets) sizes.push_back(report.bucket);
  EXPECT_THAT(sizes, ElementsAre(4, 3, 1));
  options_.capture.prefill_buckets = {0};
  const auto refused = capture_graphs(model_, *kv_, options_);
  EXPECT_THAT(refused.status().message(), HasSubstr("prefill_buckets: bucket size is 0"));
}

TEST_F(CaptureTest, FailingBucketCostsThatBucketOnly) {
  model_.failing_buckets = {4};
  const auto graphs = capture_graphs(model_, *kv_, options_);
  ASSERT_TRUE(graphs.ok());
  EXPECT_EQ(graphs->decode.buckets[0].reason, Reason::kCaptureFailed);
  EXPECT_EQ(graphs->decode.buckets[1].reason, Reason::kNone);
}

TEST_F(CaptureTest, FailingRunnerIsAnError) {
  model_.fail_decode = out_of_memory("no room for graphs");
  const auto graphs = capture_graphs(model_, *kv_, options_);
  EXPECT_EQ(graphs.status().code(), StatusCode::kOutOfMemory);
  model_.fail_decode = {};
  model_.give_no_runner = true;
  EXPECT_EQ(capture_graphs(model_, *kv_, options_).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace encore
