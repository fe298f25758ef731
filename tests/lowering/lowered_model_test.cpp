// One rank's model on the CPU backend: buckets that fail, and KV caches of several threads.
#include "encore/lowering/lowered_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "../runners/step_driver.h"
#include "cpu_device.h"
#include "random_model.h"

namespace encore::testing {
namespace {

KvOptions kv_options() {
  KvOptions options;
  options.num_pages = 32;
  options.dtype = DType::kF32;
  options.guards = true;
  return options;
}

CaptureOptions capture_options() {
  CaptureOptions options;
  options.limits.max_requests = 8;
  options.limits.max_tokens = 64;
  options.limits.max_context = 128;
  options.prefill_buckets = {16, 32, 64};
  options.decode_buckets = {1, 2, 4, 8};
  return options;
}

class LoweredModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = std::make_unique<cpu::CpuDevice>(
        std::make_shared<cpu::ThreadTeam>(std::vector<int32_t>{0}, false),
        kernels::cpu_features().level);
    auto model = lowering::LoweredModel::load(std::move(device), spec_, weights_, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = *std::move(model);
    auto kv = model_->create_kv(kv_options());
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = *std::move(kv);
    driver_ = std::make_unique<StepDriver>(spec_, *kv_);
  }

  RunnerCapture with_failed(int32_t bucket,
                            Result<RunnerCapture> (Model::*capture)(KvCache&,
                                                                    const CaptureOptions&)) {
    EXPECT_TRUE(model_->fail_capture(bucket, Reason::kOutOfMemory).ok());
    auto captured = (model_.get()->*capture)(*kv_, options_);
    EXPECT_TRUE(model_->fail_capture(bucket, Reason::kNone).ok());
    EXPECT_TRUE(captured.ok()) << captured.status().to_string();
    return captured.ok() ? *std::move(captured) : RunnerCapture{};
  }

  RunnerCheck check_prompt(const Runner& runner, int32_t tokens) {
    Sequence sequence = driver_->start(random_tokens(3, tokens, spec_.vocab_size));
    const OwnedBatch batch = driver_->batch_of({{&sequence, tokens}});
    const RunnerCheck checked = runner.check(batch.view(), {});
    driver_->finish(sequence);
    return checked;
  }

  RunnerCheck check_decodes(const Runner& runner, size_t count) {
    std::vector<Sequence> sequences;
    std::vector<Work> work;
    for (size_t i = 0; i < count; ++i) {
      sequences.push_back(driver_->start(random_tokens(i, 1, spec_.vocab_size)));
    }
    for (Sequence& sequence : sequences) work.push_back({&sequence, 1});
    const OwnedBatch batch = driver_->batch_of(work);
    const RunnerCheck checked = runner.check(batch.view(), {});
    for (Sequence& sequence : sequences) driver_->finish(sequence);
    return checked;
  }

  void expect_answer(const RunnerCheck& found, Reason reason, int32_t bucket) {
    EXPECT_EQ(found.reason, reason);
    EXPECT_EQ(found.bucket, bucket);
  }

  ModelSpec spec_ = small_spec();
  RandomWeights weights_{spec_, DType::kF32};
  CaptureOptions options_ = capture_options();
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
  std::unique_ptr<StepDriver> driver_;
};

TEST_F(LoweredModelTest, ALargerBucketServesForOneThatFailed) {
  const RunnerCapture eager = *model_->create_eager(*kv_, options_);
  const RunnerCapture prefill = with_failed(32, &Model::capture_prefill);
  const RunnerCapture decode = with_failed(2, &Model::capture_decode);
  expect_answer(check_prompt(*prefill.runner, 16), Reason::kNone, 16);
  expect_answer(check_prompt(*prefill.runner, 17), Reason::kNone, 64);
  expect_answer(check_prompt(*prefill.runner, 32), Reason::kNone, 64);
  expect_answer(check_decodes(*decode.runner, 1), Reason::kNone, 1);
  expect_answer(check_decodes(*decode.runner, 2), Reason::kNone, 4);
  const std::vector<int32_t> prompt = random_tokens(5, 20, spec_.vocab_size);
  Sequence graph = driver_->start(prompt);
  Sequence reference = driver_->start(prompt);
  const StepResult found = driver_->run(*prefill.runner, {{&graph, 20}});
  const StepResult expected = driver_->run(*eager.runner, {{&reference, 20}});
  EXPECT_EQ(found.logits, expected.logits);
}

TEST_F(LoweredModelTest, WhereNoLargerBucketIsLeftTheStepIsNotCaptured) {
  const RunnerCapture prefill = with_failed(64, &Model::capture_prefill);
  expect_answer(check_prompt(*prefill.runner, 33), Reason::kNotCaptured, 64);
}

TEST_F(LoweredModelTest, WithoutPaddingNoOtherBucketServes) {
  options_.padding = false;
  const RunnerCapture prefill = with_failed(32, &Model::capture_prefill);
  expect_answer(check_prompt(*prefill.runner, 32), Reason::kNotCaptured, 32);
}

TEST_F(LoweredModelTest, ABucketForLaterIsWaitedForUntilItFails) {
  options_.lazy = true;
  const RunnerCapture prefill = *model_->capture_prefill(*kv_, options_);
  ASSERT_TRUE(prefill.runner->capture_bucket(64).ok());
  expect_answer(check_prompt(*prefill.runner, 20), Reason::kNotCaptured, 32);
  ASSERT_TRUE(model_->fail_capture(32, Reason::kOutOfMemory).ok());
  const auto failed = prefill.runner->capture_bucket(32);
  ASSERT_TRUE(failed.ok()) << failed.status().to_string();
  EXPECT_EQ(failed->buckets.front().reason, Reason::kOutOfMemory);
  expect_answer(check_prompt(*prefill.runner, 20), Reason::kNone, 64);
}

// A model is used by one thread at a time, a KV cache by another.
TEST_F(LoweredModelTest, CachesAreMadeByOneThreadAndFreedByAnother) {
  constexpr int kCaches = 400;
  std::mutex mutex;
  std::vector<std::unique_ptr<KvCache>> made;
  int left = kCaches;
  std::thread frees([&] {
    while (true) {
      std::vector<std::unique_ptr<KvCache>> taken;
      {
        const std::lock_guard lock(mutex);
        taken.swap(made);
        if (taken.empty() && left == 0) return;
      }
      taken.clear();
    }
  });
  for (int i = 0; i < kCaches; ++i) {
    auto kv = model_->create_kv(kv_options());
    const std::lock_guard lock(mutex);
    --left;
    EXPECT_TRUE(kv.ok());
    if (kv.ok()) made.push_back(*std::move(kv));
  }
  frees.join();
  EXPECT_TRUE(model_->check_guards().ok());
}

}  // namespace
}  // namespace encore::testing
