#include "engine/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_model.h"

namespace encore {
namespace {

using testing::HasSubstr;

class DispatcherTest : public testing::Test {
 protected:
  void make(DispatchOptions options, GraphsOptions graphs_options = {}) {
    graphs_options.capture.limits.max_requests = 8;
    graphs_options.capture.limits.max_tokens = 64;
    kv_ = std::move(model_.create_kv({.num_pages = 4, .page_size = 4})).value();
    graphs_ = std::move(capture_graphs(model_, *kv_, graphs_options)).value();
    dispatcher_ = std::make_unique<Dispatcher>(
        graphs_, options, [this](LogLevel, std::string_view line) { log_.emplace_back(line); });
  }

  // A batch of `requests` that bring `tokens` in all; only its sizes matter here.
  Result<Dispatch> choose(int32_t requests, int32_t tokens) {
    ints_.assign(256, 0);
    ForwardBatch batch;
    batch.token_ids = std::span(ints_).first(tokens);
    batch.kv_len = std::span(ints_).first(requests);
    return dispatcher_->choose(batch, {});
  }

  // Steps whose cost depends on the runner: decode graph, prefill graph, eager.
  void run_steps(int32_t count, int32_t requests, int32_t tokens, std::array<int64_t, 3> us) {
    for (int32_t i = 0; i < count; ++i) {
      auto dispatch = choose(requests, tokens);
      ASSERT_TRUE(dispatch.ok());
      dispatcher_->submitted(*dispatch);
      const int32_t index = dispatch->kind == RunnerKind::kDecodeGraph    ? 0
                            : dispatch->kind == RunnerKind::kPrefillGraph ? 1
                                                                          : 2;
      dispatcher_->record(*dispatch, us[index]);
    }
  }

  int64_t replays(RunnerKind kind, int32_t bucket) {
    for (const BucketCount& count : dispatcher_->stats().buckets) {
      if (count.kind == kind && count.bucket == bucket) return count.replays;
    }
    return 0;
  }

  fake::FakeModel model_;
  std::unique_ptr<KvCache> kv_;
  GraphsCapture graphs_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::string> log_;
  std::vector<int32_t> ints_;
};

TEST_F(DispatcherTest, EachGetsItsSamplesAndTheCheapestTheRest) {
  make({.graph_samples = 4, .eager_samples = 3});
  run_steps(100, 3, 3, {50, 80, 70});
  const DispatchStats stats = dispatcher_->stats();
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 4), 93);
  EXPECT_EQ(replays(RunnerKind::kPrefillGraph, 16), 4);
  EXPECT_EQ(stats.eager_samples, 3);
  EXPECT_EQ(stats.eager_fallbacks, 0);
  EXPECT_TRUE(log_.empty());
}

TEST_F(DispatcherTest, MeasuredCostWinsOverKind) {
  make({.graph_samples = 4, .eager_samples = 0});
  run_steps(100, 3, 3, {80, 50, 10});
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 4), 4);
  EXPECT_EQ(replays(RunnerKind::kPrefillGraph, 16), 96);
}

TEST_F(DispatcherTest, HopelessRunnerIsTriedOnce) {
  make({.graph_samples = 4, .eager_samples = 3});
  run_steps(100, 3, 3, {50, 500, 900});
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 4), 98);
  EXPECT_EQ(replays(RunnerKind::kPrefillGraph, 16), 1);
  EXPECT_EQ(dispatcher_->stats().eager_samples, 1);
}

TEST_F(DispatcherTest, SizesAreMeasuredApart) {
  make({.graph_samples = 2, .eager_samples = 0});
  run_steps(10, 1, 1, {50, 90, 0});
  run_steps(10, 8, 8, {90, 50, 0});
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 1), 8);
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 8), 2);
  EXPECT_EQ(replays(RunnerKind::kPrefillGraph, 16), 2 + 8);
}

TEST_F(DispatcherTest, ClearlyFasterEagerIsUsedCountedAndLoggedOnce) {
  make({.graph_samples = 2, .eager_samples = 2});
  run_steps(100, 3, 3, {50, 80, 10});
  const DispatchStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.eager_samples, 2);
  EXPECT_EQ(stats.fallbacks_by_reason[static_cast<int32_t>(Reason::kSlower)], 94);
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_THAT(log_[0], HasSubstr("measured faster than the decode_graph"));
}

TEST_F(DispatcherTest, StepsThatABusyMachineDelaysMoveNothing) {
  make({});
  for (int64_t step = 0; step < 100; ++step) run_steps(1, 3, 3, {step % 3 == 0 ? 500 : 50, 80, 46});
  EXPECT_EQ(dispatcher_->stats().eager_fallbacks, 0);
}

TEST_F(DispatcherTest, SlightlyFasterEagerIsNotWorthAFallback) {
  make({});
  run_steps(100, 3, 3, {50, 80, 48});
  EXPECT_EQ(dispatcher_->stats().eager_fallbacks, 0);
}

TEST_F(DispatcherTest, EagerThatBecameSlowIsLeftAgain) {
  make({});
  run_steps(50, 3, 3, {50, 80, 10});
  EXPECT_GT(dispatcher_->stats().eager_fallbacks, 0);
  run_steps(100, 3, 3, {50, 80, 500});
  const int64_t before = dispatcher_->stats().eager_fallbacks;
  run_steps(100, 3, 3, {50, 80, 500});
  EXPECT_EQ(dispatcher_->stats().eager_fallbacks, before);
}

TEST_F(DispatcherTest, StepThatNoGraphTakesFallsBackForTheGraphsReason) {
  model_.decode_reason = Reason::kObserved;
  model_.prefill_reason = Reason::kNoLayerStack;
  make({});
  run_steps(5, 3, 3, {});
  run_steps(2, 3, 30, {});
  const DispatchStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.eager_fallbacks, 7);
  EXPECT_EQ(stats.fallbacks_by_reason[static_cast<int32_t>(Reason::kObserved)], 5);
  EXPECT_EQ(stats.fallbacks_by_reason[static_cast<int32_t>(Reason::kNoLayerStack)], 2);
  ASSERT_EQ(log_.size(), 2U);
  EXPECT_THAT(log_[0], HasSubstr("decode_graph says observed"));
  EXPECT_THAT(log_[1], HasSubstr("prefill_graph says no_layer_stack"));
}

TEST_F(DispatcherTest, RequiredGraphMakesAFallbackAnErrorNamingTheReasons) {
  model_.decode_reason = Reason::kObserved;
  model_.prefill_reason = Reason::kTooManyLogprobs;
  make({.require_graph = true});
  const auto dispatch = choose(3, 3);
  EXPECT_EQ(dispatch.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(dispatch.status().message(), HasSubstr("decode_graph says observed"));
  EXPECT_THAT(dispatch.status().message(), HasSubstr("prefill_graph says too_many_logprobs"));
}

TEST_F(DispatcherTest, RequiredGraphNeverMeasuresEager) {
  make({.require_graph = true});
  run_steps(100, 3, 3, {50, 80, 10});
  const DispatchStats stats = dispatcher_->stats();
  EXPECT_EQ(stats.eager_samples, 0);
  EXPECT_EQ(stats.graph_replays, 100);
}

TEST_F(DispatcherTest, StepThatNobodyTakesIsAnError) {
  model_.decode_reason = model_.prefill_reason = model_.eager_reason = Reason::kHistoryTooLong;
  make({});
  EXPECT_THAT(choose(1, 1).status().message(), HasSubstr("eager says history_too_long"));
}

TEST_F(DispatcherTest, WithoutGraphsEagerRunsEverything) {
  GraphsOptions graphs;
  graphs.capture.prefill_mode = PrefillMode::kOff;
  graphs.capture_decode = false;
  make({}, graphs);
  run_steps(5, 2, 2, {});
  EXPECT_EQ(dispatcher_->stats().fallbacks_by_reason[static_cast<int32_t>(Reason::kDisabled)], 5);
}

TEST_F(DispatcherTest, WithoutPaddingExactSizesReplayAndOthersAreCounted) {
  GraphsOptions graphs;
  graphs.capture.padding = false;
  graphs.capture.prefill_mode = PrefillMode::kOff;
  make({.eager_samples = 0}, graphs);
  run_steps(3, 4, 4, {});
  run_steps(2, 3, 3, {});
  EXPECT_EQ(replays(RunnerKind::kDecodeGraph, 4), 3);
  EXPECT_EQ(dispatcher_->stats().fallbacks_by_reason[static_cast<int32_t>(Reason::kNoExactBucket)],
            2);
}

}  // namespace
}  // namespace encore
