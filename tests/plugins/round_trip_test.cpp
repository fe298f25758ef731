// A C++ backend, behind the C ABI in its own library, used as a C++ backend again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "fake_backend.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

using testing::HasSubstr;

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

  LoadedPlugin plugin_;
  Status init_status_;
  MemoryWeights weights_;
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
  init();
  EXPECT_EQ(plugin_.name, "fake");
  const BackendIdentity identity = backend().identity();
  EXPECT_EQ(identity.vendor, "Encore tests");
  EXPECT_EQ(identity.version, "1.2.3");
  EXPECT_EQ(identity.build_id, "fake-build");
  EXPECT_TRUE(backend().probe().usable);
  EXPECT_EQ(backend().probe().reason, "always");
}

TEST_F(RoundTripTest, PrefillAndDecodeGiveTheBackendsOwnTokens) {
  init();
  load();
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

}  // namespace
}  // namespace encore
