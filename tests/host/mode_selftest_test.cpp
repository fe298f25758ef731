// Doctor's self-test of the modes, on the fake backend and on one whose decode graph is wrong.
#include "mode_selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "fake_backend.h"

namespace encore {
namespace {

using ::testing::HasSubstr;
using State = ModeTest::State;

constexpr uint64_t kAllModes = kCapabilityEager | kCapabilityPrefillFull |
                               kCapabilityPrefillBreakable | kCapabilityDecodeGraph;

// Passes on all but one thing: every logit of a row moves by `shift`, all but the first.
class ShiftedRunner final : public Runner {
 public:
  ShiftedRunner(std::unique_ptr<Runner> inner, float shift)
      : inner_(std::move(inner)), shift_(shift) {}

  RunnerKind kind() const override { return inner_->kind(); }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    return inner_->check(batch, output);
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    Result<Ticket> ticket = inner_->submit(batch, output);
    if (!output.logits.empty()) output.logits.back() += shift_;
    return ticket;
  }
  Status wait(Ticket ticket, int64_t timeout_us) override {
    return inner_->wait(ticket, timeout_us);
  }

 private:
  std::unique_ptr<Runner> inner_;
  float shift_;
};

class ShiftedModel final : public Model {
 public:
  ShiftedModel(std::unique_ptr<Model> inner, float shift)
      : inner_(std::move(inner)), shift_(shift) {}

  ModelInfo info() const override { return inner_->info(); }
  Result<std::unique_ptr<KvCache>> create_kv(const KvOptions& options) override {
    return inner_->create_kv(options);
  }
  Result<RunnerCapture> create_eager(KvCache& kv, const CaptureOptions& options) override {
    return inner_->create_eager(kv, options);
  }
  Result<RunnerCapture> capture_prefill(KvCache& kv, const CaptureOptions& options) override {
    return inner_->capture_prefill(kv, options);
  }
  Result<RunnerCapture> capture_decode(KvCache& kv, const CaptureOptions& options) override {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture capture, inner_->capture_decode(kv, options));
    capture.runner = std::make_unique<ShiftedRunner>(std::move(capture.runner), shift_);
    return capture;
  }
  Status set_layer_observer(LayerObserver observer) override {
    return inner_->set_layer_observer(std::move(observer));
  }
  Status check_guards() const override { return inner_->check_guards(); }

 private:
  std::unique_ptr<Model> inner_;
  float shift_;
};

class ShiftedBackend final : public FakeBackend {
 public:
  explicit ShiftedBackend(float shift) : shift_(shift) {}
  Result<std::unique_ptr<Model>> load_model(int32_t device, const ModelSpec& spec,
                                            const WeightSource& weights,
                                            const LoadOptions& options) override {
    ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            FakeBackend::load_model(device, spec, weights, options));
    return std::unique_ptr<Model>(std::make_unique<ShiftedModel>(std::move(model), shift_));
  }

 private:
  float shift_;
};

std::vector<ModeTest> test_fake(const OptionValues& options, uint64_t capabilities,
                                bool with_ranks = false) {
  FakeBackend backend;
  EXPECT_TRUE(backend.init(options).ok());
  return test_modes(backend, 0, capabilities, with_ranks);
}

TEST(ModeSelftestTest, EveryClaimedModeIsRunAndCompared) {
  const std::vector<ModeTest> tests = test_fake({}, kAllModes);
  ASSERT_EQ(tests.size(), 4U);
  EXPECT_EQ(tests[0].mode, "eager");
  EXPECT_EQ(tests[1].mode, "prefill full");
  EXPECT_EQ(tests[2].mode, "prefill breakable");
  EXPECT_EQ(tests[3].mode, "decode graph");
  for (const ModeTest& test : tests) EXPECT_EQ(test.state, State::kPassed) << test.detail;
  EXPECT_EQ(tests[1].largest_difference, 0.0F);
  EXPECT_EQ(tests[3].largest_difference, 0.0F);
}

TEST(ModeSelftestTest, ModesThatAreNotClaimedAreNotTried) {
  const std::vector<ModeTest> tests = test_fake({}, kCapabilityEager | kCapabilityDecodeGraph);
  ASSERT_EQ(tests.size(), 4U);
  EXPECT_EQ(tests[1].state, State::kNotClaimed);
  EXPECT_EQ(tests[2].state, State::kNotClaimed);
  EXPECT_EQ(tests[3].state, State::kPassed);
}

TEST(ModeSelftestTest, BucketThatIsSkippedFailsItsModeAlone) {
  const std::vector<ModeTest> tests = test_fake({{"skip_bucket", "32"}}, kAllModes);
  ASSERT_EQ(tests.size(), 4U);
  EXPECT_EQ(tests[1].state, State::kFailed);
  EXPECT_EQ(tests[1].detail, "bucket 32 was not captured: out_of_memory: asked to skip");
  EXPECT_EQ(tests[3].state, State::kPassed);
}

TEST(ModeSelftestTest, ModelThatCannotBeLoadedFailsEveryMode) {
  const std::vector<ModeTest> tests = test_fake({{"fail_in", "load"}}, kAllModes);
  ASSERT_EQ(tests.size(), 4U);
  for (const ModeTest& test : tests) EXPECT_EQ(test.state, State::kFailed) << test.mode;
  EXPECT_EQ(tests[0].detail, "asked to fail in load");
}

TEST(ModeSelftestTest, RanksAreTriedIfAskedForAndClaimed) {
  EXPECT_EQ(test_fake({}, kAllModes, true).at(4).state, State::kNotClaimed);
  EXPECT_EQ(test_fake({}, kAllModes | kCapabilityCollectives, true).at(4).state, State::kPassed);
}

// A row's logits range over nearly 16: 0.1 is within bf16's rounding, 1 is not.
TEST(ModeSelftestTest, LogitThatDiffersFailsTheModeThatGaveIt) {
  ShiftedBackend near(0.1F);
  ASSERT_TRUE(near.init({}).ok());
  const std::vector<ModeTest> rounded = test_modes(near, 0, kAllModes, false);
  EXPECT_EQ(rounded.at(3).state, State::kPassed) << rounded.at(3).detail;
  EXPECT_GT(rounded.at(3).largest_difference, 0.005F);
  ShiftedBackend far(1.0F);
  ASSERT_TRUE(far.init({}).ok());
  const std::vector<ModeTest> wrong = test_modes(far, 0, kAllModes, false);
  EXPECT_EQ(wrong.at(1).state, State::kPassed);
  EXPECT_EQ(wrong.at(3).state, State::kFailed);
  EXPECT_THAT(wrong.at(3).detail, HasSubstr("a logit differs from eager by 6."));
  EXPECT_THAT(wrong.at(3).detail, HasSubstr("the limit is 2.00 %"));
}

}  // namespace
}  // namespace encore
