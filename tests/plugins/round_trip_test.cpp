// A C++ backend, behind the C ABI in its own library, used as a C++ backend again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "fake_backend.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

class RoundTripTest : public testing::Test {
 protected:
  void init(const std::vector<std::pair<std::string, std::string>>& options = {}) {
    Result<LoadedPlugin> plugin = load_plugin(test_plugin("fake"), test_host());
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    plugin_ = std::move(plugin).value();
    const Result<OptionValues> values = check_options(backend().option_schema(), options);
    ASSERT_TRUE(values.ok()) << values.status().to_string();
    init_status_ = backend().init(*values);
  }

  // A model and a KV cache of 8 pages of 4 tokens.
  void load() {
    Result<std::unique_ptr<Model>> model = backend().load_model(0, small_spec(), weights_, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = std::move(model).value();
    Result<std::unique_ptr<KvCache>> kv = model_->create_kv({.num_pages = 8, .page_size = 4});
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = std::move(kv).value();
  }

  Backend& backend() { return *plugin_.backend; }

  MemoryWeights weights_;  // outlives the model
  LoadedPlugin plugin_;
  Status init_status_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
};

int32_t best_token(const std::vector<int32_t>& tokens) {
  uint64_t state = 0;
  for (const int32_t token : tokens) state = fake_hash(state, token);
  int32_t best = 0;
  for (int32_t v = 1; v < 64; ++v) {
    if (fake_logit(state, v) > fake_logit(state, best)) best = v;
  }
  return best;
}

TEST_F(RoundTripTest, IdentityAndProbeCrossTheBoundary) {
  ASSERT_NO_FATAL_FAILURE(init());
  EXPECT_EQ(plugin_.name, "fake");
  const BackendIdentity identity = backend().identity();
  EXPECT_EQ(identity.vendor, "Encore tests");
  EXPECT_EQ(identity.version, "1.2.3");
  EXPECT_EQ(identity.build_id, "fake-build");
  EXPECT_TRUE(backend().probe().usable);
  EXPECT_EQ(backend().probe().reason, "always");
}

TEST_F(RoundTripTest, PrefillAndDecodeGiveTheBackendsOwnTokens) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
  ASSERT_TRUE(eager.ok()) << eager.status().to_string();
  Result<RunnerCapture> decode = model_->capture_decode(*kv_, small_capture());
  ASSERT_TRUE(decode.ok()) << decode.status().to_string();

  OneRequest prompt({5, 9, 2, 11, 3}, 0);
  EXPECT_TRUE(eager->runner->check(prompt.batch(), prompt.output()).ok());
  Result<Ticket> first = eager->runner->submit(prompt.batch(), prompt.output());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(eager->runner->wait(*first, -1).ok());
  const int32_t expected = best_token({5, 9, 2, 11, 3});
  EXPECT_EQ(prompt.sampled, expected);
  EXPECT_EQ(prompt.row_status, 0);
  uint64_t state = 0;
  for (const int32_t token : {5, 9, 2, 11, 3}) state = fake_hash(state, token);
  EXPECT_EQ(prompt.logits[17], fake_logit(state, 17));

  OneRequest next({-1}, 5);  // the token that row 0 of the previous step sampled
  const RunnerCheck check = decode->runner->check(next.batch(), next.output());
  EXPECT_TRUE(check.ok());
  EXPECT_EQ(check.bucket, 1);
  Result<Ticket> second = decode->runner->submit(next.batch(), next.output());
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  ASSERT_TRUE(decode->runner->wait(*second, -1).ok());
  EXPECT_EQ(next.sampled, best_token({5, 9, 2, 11, 3, expected}));
}

TEST_F(RoundTripTest, LoadProgressCountsBytesAndCanCancel) {
  ASSERT_NO_FATAL_FAILURE(init());
  LoadOptions options;
  std::vector<std::pair<int64_t, int64_t>> seen;
  options.progress = [&](int64_t done, int64_t total) {
    seen.emplace_back(done, total);
    return true;
  };
  ASSERT_TRUE(backend().load_model(0, small_spec(), weights_, options).ok());
  EXPECT_THAT(seen, testing::ElementsAre(testing::Pair(32, 44), testing::Pair(44, 44)));
  options.progress = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(backend().load_model(0, small_spec(), weights_, options).status().code(),
            StatusCode::kCancelled);
  options.progress = [](int64_t, int64_t) -> bool { throw std::runtime_error("no"); };
  EXPECT_EQ(backend().load_model(0, small_spec(), weights_, options).status().code(),
            StatusCode::kCancelled);
}

TEST_F(RoundTripTest, SkippedBucketIsReportedWithItsReason) {
  ASSERT_NO_FATAL_FAILURE(init({{"skip_bucket", "2"}}));
  ASSERT_NO_FATAL_FAILURE(load());
  const Result<RunnerCapture> decode = model_->capture_decode(*kv_, small_capture());
  ASSERT_TRUE(decode.ok());
  const std::vector<BucketReport>& buckets = decode->report.buckets;
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].bucket, 4);
  EXPECT_EQ(buckets[0].reason, Reason::kNone);
  EXPECT_EQ(buckets[1].bucket, 2);
  EXPECT_EQ(buckets[1].reason, Reason::kOutOfMemory);
  EXPECT_EQ(buckets[1].message, "asked to skip");
}

TEST_F(RoundTripTest, RunnersAnswerWithReasons) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> decode = model_->capture_decode(*kv_, small_capture());
  Result<RunnerCapture> prefill = model_->capture_prefill(*kv_, small_capture());
  ASSERT_TRUE(decode.ok() && prefill.ok());
  OneRequest two({1, 2}, 0);
  EXPECT_EQ(decode->runner->check(two.batch(), two.output()).reason, Reason::kNotDecode);
  EXPECT_EQ(prefill->runner->check(two.batch(), two.output()).bucket, 16);
  OneRequest many(std::vector<int32_t>(33, 1), 0);
  EXPECT_EQ(prefill->runner->check(many.batch(), many.output()).reason, Reason::kTooManyTokens);
}

TEST_F(RoundTripTest, BatchThatContradictsItselfIsRefusedAndLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
  ASSERT_TRUE(eager.ok());
  OneRequest bad({1, 2}, 0);
  bad.positions.pop_back();
  const Status status = eager->runner->submit(bad.batch(), bad.output()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "positions has 1 entries; token_ids has 2");
  OneRequest good({1, 2}, 0);
  const Result<Ticket> ticket = eager->runner->submit(good.batch(), good.output());
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(eager->runner->wait(*ticket, 0).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(eager->runner->wait(*ticket, -1).ok());
  EXPECT_EQ(eager->runner->wait(*ticket, -1).code(), StatusCode::kFailedPrecondition);
}

TEST_F(RoundTripTest, KvPagesAreCopiedAndRead) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
  ASSERT_TRUE(eager.ok());
  OneRequest step({5, 6, 7, 8}, 0);
  const Result<Ticket> ticket = eager->runner->submit(step.batch(), step.output());
  ASSERT_TRUE(ticket.ok() && eager->runner->wait(*ticket, -1).ok());
  const std::vector<PageCopy> copies = {{0, 7}};
  ASSERT_TRUE(kv_->copy_pages(copies).ok());
  std::vector<std::byte> page(16);
  ASSERT_TRUE(kv_->read_page(7, page).ok());
  int32_t tokens[4];
  std::memcpy(tokens, page.data(), sizeof(tokens));
  EXPECT_THAT(tokens, testing::ElementsAre(5, 6, 7, 8));
}

TEST_F(RoundTripTest, ObserverSeesEveryLayerUntilItIsRemoved) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_NO_FATAL_FAILURE(load());
  std::vector<int32_t> layers;
  ASSERT_TRUE(model_
                  ->set_layer_observer([&](const LayerOutput& output) {
                    layers.push_back(output.layer);
                    EXPECT_EQ(output.hidden[7], static_cast<float>(output.layer) + 7.0F);
                    throw std::runtime_error("an observer that throws must not reach the plugin");
                  })
                  .ok());
  Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
  Result<RunnerCapture> decode = model_->capture_decode(*kv_, small_capture());
  ASSERT_TRUE(eager.ok() && decode.ok());
  OneRequest step({1, 2}, 0);
  ASSERT_TRUE(eager->runner->submit(step.batch(), step.output()).ok());
  EXPECT_THAT(layers, testing::ElementsAre(0, 1));
  OneRequest next({3}, 2);
  EXPECT_EQ(decode->runner->check(next.batch(), next.output()).reason, Reason::kObserved);
  ASSERT_TRUE(model_->set_layer_observer({}).ok());
  ASSERT_TRUE(eager->runner->submit(next.batch(), next.output()).ok());
  EXPECT_EQ(layers.size(), 2U);
}

TEST_F(RoundTripTest, ExceptionsInThePluginBecomeErrors) {
  ASSERT_NO_FATAL_FAILURE(init({{"throw_in", "init"}}));
  EXPECT_EQ(init_status_.to_string(), "internal: exception: thrown in init");
  ASSERT_NO_FATAL_FAILURE(init({{"throw_in", "load"}}));
  EXPECT_EQ(backend().load_model(0, small_spec(), weights_, {}).status().message(),
            "exception: thrown in load");
  plugin_ = {};
  ASSERT_NO_FATAL_FAILURE(init({{"throw_in", "submit"}}));
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
  ASSERT_TRUE(eager.ok());
  OneRequest step({1}, 0);
  EXPECT_EQ(eager->runner->submit(step.batch(), step.output()).status().to_string(),
            "internal: exception: thrown in submit");
}

TEST_F(RoundTripTest, ExceptionInCheckIsUnsupportedAndInShutdownIsLost) {
  ASSERT_NO_FATAL_FAILURE(init({{"throw_in", "check"}}));
  ASSERT_NO_FATAL_FAILURE(load());
  {
    Result<RunnerCapture> eager = model_->create_eager(*kv_, small_capture());
    ASSERT_TRUE(eager.ok());
    OneRequest step({1}, 0);
    EXPECT_EQ(eager->runner->check(step.batch(), step.output()).reason, Reason::kUnsupported);
  }
  kv_.reset();
  model_.reset();
  plugin_ = {};
  ASSERT_NO_FATAL_FAILURE(init({{"throw_in", "shutdown"}}));
  ASSERT_TRUE(init_status_.ok()) << init_status_.to_string();
  backend().shutdown();
}

TEST_F(RoundTripTest, ErrorsOfThePluginKeepCodeAndMessage) {
  ASSERT_NO_FATAL_FAILURE(init({{"fail_in", "load"}}));
  EXPECT_EQ(backend().load_model(0, small_spec(), weights_, {}).status().to_string(),
            "out_of_memory: asked to fail in load");
  ModelSpec spec = small_spec();
  spec.vocab_size = 0;
  EXPECT_EQ(backend().check_model(0, spec, {}).to_string(),
            "unimplemented: vocab_size is 0; the fake backend takes 1 to 1048576");
  EXPECT_EQ(backend().device_info(2).status().to_string(),
            "not_found: device 2 does not exist; there are 0 and 1");
}

TEST_F(RoundTripTest, DamagedGuardIsNamed) {
  ASSERT_NO_FATAL_FAILURE(init({{"damage_guards", "true"}}));
  ASSERT_NO_FATAL_FAILURE(load());
  EXPECT_EQ(model_->check_guards().to_string(),
            "internal: guard bytes after 'arena' are damaged; last step was 7");
}

TEST_F(RoundTripTest, PluginsLinesReachTheHostsLog) {
  std::vector<std::string> lines;
  Result<LoadedPlugin> plugin = load_plugin(
      test_plugin("fake"), {.version = "test", .log = [&](sdk::LogLevel, std::string_view line) {
                              lines.emplace_back(line);
                            }});
  ASSERT_TRUE(plugin.ok());
  ASSERT_TRUE(plugin->backend->init({}).ok());
  EXPECT_THAT(lines, testing::ElementsAre("fake backend is ready"));
  (void)load_plugin("/none", {.version = "test", .log = [](sdk::LogLevel, std::string_view) {}});
}

TEST_F(RoundTripTest, ShutdownAllowsAnotherInit) {
  ASSERT_NO_FATAL_FAILURE(init());
  ASSERT_TRUE(init_status_.ok());
  EXPECT_EQ(backend().init({}).code(), StatusCode::kFailedPrecondition);
  backend().shutdown();
  EXPECT_EQ(backend().device_count(), 0);
  EXPECT_TRUE(backend().init({}).ok());
  EXPECT_EQ(backend().device_count(), 2);
}

}  // namespace
}  // namespace encore
