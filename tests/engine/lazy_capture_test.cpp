// Graphs whose buckets are captured between steps.
#include "engine/lazy_capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_rig.h"

namespace encore::fake {
namespace {

using testing::Contains;
using testing::HasSubstr;

RigOptions lazy(bool lazy, bool submit_ahead = false) {
  RigOptions options;
  options.graphs.capture.lazy = lazy;
  options.graphs.capture.prefill_buckets = {16, 32, 64};
  options.graphs.capture.decode_buckets = {1, 2, 4, 8};
  options.submit_ahead = submit_ahead;
  return options;
}

RequestOptions request(int32_t salt, int32_t max_tokens) {
  RequestOptions options;
  options.prompt = make_prompt(20, salt);
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  return options;
}

class LazyCaptureTest : public testing::TestWithParam<bool> {};

TEST_P(LazyCaptureTest, TokensAreThoseOfGraphsCapturedAtOnce) {
  Rig at_once(lazy(false, GetParam()));
  Rig later(lazy(true, GetParam()));
  for (int32_t salt = 0; salt < 12; ++salt) {
    at_once.add(varied_request(salt, 60, 20));
    later.add(varied_request(salt, 60, 20));
  }
  at_once.run();
  later.run();
  for (const auto& [id, reply] : at_once.replies) {
    EXPECT_EQ(later.replies[id].tokens, reply.tokens) << id;
  }
}

TEST_P(LazyCaptureTest, StepsReplayOnceTheirBucketIsThere) {
  Rig rig(lazy(true, GetParam()));
  EXPECT_EQ(rig.engine->stats().buckets_pending, 0);  // published by the first step
  rig.add(request(1, 30));
  rig.run();
  const EngineStats stats = rig.engine->stats();
  EXPECT_EQ(stats.buckets_pending, 0);
  const auto missing = static_cast<size_t>(Reason::kNotCaptured);
  EXPECT_GE(stats.dispatch.fallbacks_by_reason[missing], 1);
  // The prompt, and the few steps until the bucket of one request had its turn.
  EXPECT_LE(stats.dispatch.fallbacks_by_reason[missing], 4);
  EXPECT_EQ(stats.dispatch.graph_replays,
            stats.num_steps - stats.dispatch.fallbacks_by_reason[missing]);
  EXPECT_THAT(rig.log, Contains(HasSubstr("a step runs eagerly")));
  EXPECT_THAT(rig.log, Contains(HasSubstr("decode_graph bucket 1 captured between steps")));
}

INSTANTIATE_TEST_SUITE_P(Ahead, LazyCaptureTest, testing::Bool());

TEST(LazyCaptureOrderTest, OneBucketAStep) {
  Rig rig(lazy(true));
  rig.add(request(1, 30));
  int32_t before = 7;
  for (int32_t i = 0; i < 7; ++i) {
    rig.step();
    EXPECT_EQ(rig.engine->stats().buckets_pending, --before);
  }
  EXPECT_TRUE(rig.step());
  EXPECT_EQ(rig.engine->stats().buckets_pending, 0);
}

TEST(LazyCaptureOrderTest, MostAskedForComesFirstThenTheLargest) {
  FakeModel model;
  auto kv = std::move(model.create_kv({.num_pages = 8, .page_size = 4})).value();
  GraphsOptions options = lazy(true).graphs;
  options.capture.limits = RigOptions().limits;
  auto graphs = capture_graphs(model, *kv, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status().to_string();
  LazyCapture capture(*graphs, {});
  EXPECT_EQ(capture.num_pending(), 7);
  capture.asked(RunnerKind::kDecodeGraph, 2);
  capture.asked(RunnerKind::kDecodeGraph, 2);
  capture.asked(RunnerKind::kPrefillGraph, 32);
  capture.asked(RunnerKind::kPrefillGraph, 2);  // there is no such bucket
  std::vector<std::pair<RunnerKind, int32_t>> order;
  while (capture.pending()) {
    const LazyCapture::Captured captured = capture.capture_next();
    order.emplace_back(captured.kind, captured.report.buckets.at(0).bucket);
  }
  const std::vector<std::pair<RunnerKind, int32_t>> expected = {
      {RunnerKind::kDecodeGraph, 2},   {RunnerKind::kPrefillGraph, 32},
      {RunnerKind::kPrefillGraph, 64}, {RunnerKind::kPrefillGraph, 16},
      {RunnerKind::kDecodeGraph, 8},   {RunnerKind::kDecodeGraph, 4},
      {RunnerKind::kDecodeGraph, 1}};
  EXPECT_EQ(order, expected);
}

TEST(LazyCaptureOrderTest, BucketThatFailsIsLoggedAndNotTriedAgain) {
  FakeModel model;
  auto kv = std::move(model.create_kv({.num_pages = 8, .page_size = 4})).value();
  GraphsOptions options = lazy(true).graphs;
  options.capture.limits = RigOptions().limits;
  options.capture.decode_buckets = {8};
  options.capture.prefill_mode = PrefillMode::kOff;
  auto graphs = capture_graphs(model, *kv, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status().to_string();
  dynamic_cast<FakeRunner&>(*graphs->decode.runner).pending.clear();
  std::vector<std::string> log;
  LazyCapture capture(*graphs, [&](LogLevel, std::string_view line) { log.emplace_back(line); });
  const LazyCapture::Captured captured = capture.capture_next();
  EXPECT_EQ(captured.report.buckets.at(0).reason, Reason::kCaptureFailed);
  EXPECT_FALSE(capture.pending());
  EXPECT_THAT(log, Contains(HasSubstr("decode_graph bucket 8 was not captured (capture_failed)")));
}

}  // namespace
}  // namespace encore::fake
