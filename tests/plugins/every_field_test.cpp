// Every field of every struct, in both directions, through the echo plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "encore/loader/plugin_loader.h"
#include "literals.h"
#include "plugin_test_util.h"

namespace encore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class EveryFieldTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<LoadedPlugin> plugin = load_plugin(test_plugin("echo"), test_host());
    ASSERT_TRUE(plugin.ok()) << plugin.status().to_string();
    plugin_ = std::move(plugin).value();
    const Status status = backend().init(literals::option_values());
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  void load() {
    Result<std::unique_ptr<Model>> model =
        backend().load_model(1, literals::spec(), weights_, literals::load_options());
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    model_ = std::move(model).value();
    Result<std::unique_ptr<KvCache>> kv = model_->create_kv(literals::kv_options());
    ASSERT_TRUE(kv.ok()) << kv.status().to_string();
    kv_ = std::move(kv).value();
  }

  Backend& backend() { return *plugin_.backend; }

  LoadedPlugin plugin_;
  MemoryWeights weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_;
};

TEST_F(EveryFieldTest, OfTheBackend) {
  const BackendIdentity identity = backend().identity();
  EXPECT_EQ(identity.name, "vendor.echo");
  EXPECT_EQ(identity.vendor, "Vendor");
  EXPECT_EQ(identity.version, "9.8.7");
  EXPECT_EQ(identity.build_id, "b-42");
  EXPECT_FALSE(backend().probe().usable);
  EXPECT_EQ(backend().probe().reason, "no mirror here");
  EXPECT_EQ(literals::difference(backend().option_schema(), literals::schema()), "");
  EXPECT_THAT(backend().stats(), ElementsAre(Pair("first", 281474976710656), Pair("second", -2)));
  EXPECT_TRUE(backend().selftest(1).ok());
  EXPECT_EQ(backend().selftest(0).to_string(), "internal: kernel 'mirror' gave 3, expected 4");
}

TEST_F(EveryFieldTest, OfADevice) {
  EXPECT_EQ(backend().device_count(), 7);
  const Result<DeviceInfo> info = backend().device_info(1);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->id, "echo:1");
  EXPECT_EQ(info->name, "Echo");
  EXPECT_EQ(info->architecture, "mirror");
  EXPECT_EQ(info->capabilities, 0b1101000U);
  EXPECT_EQ(backend().device_info(2).status().to_string(), "not_found: device 2");
  const Result<DeviceMemory> memory = backend().device_memory(1);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->total_bytes, 35184372088832);
  EXPECT_EQ(memory->free_bytes, 702);
  const Result<DeviceLimits> limits = backend().measure_limits(1);
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->read_bytes_per_s, 1.5e12);
  EXPECT_EQ(limits->matmul_ops_per_s, 2.5e15);
}

TEST_F(EveryFieldTest, OfAModelAndItsWeights) {
  EXPECT_EQ(backend().check_model(1, literals::spec(), literals::weights()).to_string(), "ok");
  ASSERT_NO_FATAL_FAILURE(load());
  EXPECT_EQ(literals::difference(model_->info(), literals::model_info()), "");
  EXPECT_THAT(weights_.released(), ElementsAre(0));
  EXPECT_EQ(model_->check_guards().to_string(), "internal: guard of 'echo' is damaged");
}

TEST_F(EveryFieldTest, ADifferenceIsNoticed) {
  ModelSpec spec = literals::spec();
  spec.rope.inv_freq[2] = 0.25F;
  EXPECT_THAT(backend().check_model(1, spec, literals::weights()).message(),
              HasSubstr("rope.inv_freq: found [1 0.5 0.25 ], expected [1 0.5 0.125 ]"));
}

TEST_F(EveryFieldTest, OfLoadProgressAndCancelling) {
  LoadOptions options = literals::load_options();
  int64_t seen_done = 0;
  int64_t seen_total = 0;
  options.progress = [&](int64_t done, int64_t total) {
    seen_done = done;
    seen_total = total;
    return false;
  };
  const auto model = backend().load_model(1, literals::spec(), weights_, options);
  EXPECT_EQ(model.status().to_string(), "cancelled: stopped at half");
  EXPECT_EQ(seen_done, 70368744177664);
  EXPECT_EQ(seen_total, 140737488355328);
}

TEST_F(EveryFieldTest, OfAKvCache) {
  ASSERT_NO_FATAL_FAILURE(load());
  EXPECT_EQ(literals::difference(kv_->info(), literals::kv_info()), "");
  const std::vector<PageCopy> copies = {{1, 2}, {3, 200}};
  EXPECT_EQ(kv_->copy_pages(copies).to_string(), "ok");
  std::vector<std::byte> page(24);
  ASSERT_TRUE(kv_->read_page(5, page).ok());
  EXPECT_EQ(page[0], std::byte{5});
  EXPECT_EQ(page[23], std::byte{28});
  const std::vector<PageCopy> outside = {{1, 201}};
  EXPECT_THAT(kv_->copy_pages(outside).message(), HasSubstr("page 201"));
  EXPECT_THAT(kv_->read_page(-1, page).message(), HasSubstr("page -1"));
  page.resize(23);
  EXPECT_THAT(kv_->read_page(5, page).message(), HasSubstr("23 bytes; a page has 24"));
}

TEST_F(EveryFieldTest, OfTheThreeCaptures) {
  ASSERT_NO_FATAL_FAILURE(load());
  CaptureOptions options = literals::capture_options();
  int32_t calls = 0;
  options.progress = [&](int32_t done, int32_t total) {
    ++calls;
    EXPECT_EQ(done, 1);
    EXPECT_EQ(total, 2);
  };
  using Create = Result<RunnerCapture> (Model::*)(KvCache&, const CaptureOptions&);
  const std::pair<Create, RunnerKind> kinds[] = {
      {&Model::create_eager, RunnerKind::kEager},
      {&Model::capture_prefill, RunnerKind::kPrefillGraph},
      {&Model::capture_decode, RunnerKind::kDecodeGraph}};
  for (const auto& [create, kind] : kinds) {
    const Result<RunnerCapture> capture = (*model_.*create)(*kv_, options);
    ASSERT_TRUE(capture.ok()) << capture.status().to_string();
    EXPECT_EQ(capture->runner->kind(), kind);
    EXPECT_EQ(literals::difference(capture->report, literals::capture_report()), "");
  }
  EXPECT_EQ(calls, 3);
}

TEST_F(EveryFieldTest, OfAStep) {
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> capture = model_->create_eager(*kv_, literals::capture_options());
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  Runner& runner = *capture->runner;
  literals::Step step;
  const RunnerCheck check = runner.check(step.batch(), step.output());
  EXPECT_EQ(check.reason, Reason::kSlower);
  EXPECT_EQ(check.bucket, 77);
  const Result<Ticket> ticket = runner.submit(step.batch(), step.output());
  ASSERT_TRUE(ticket.ok()) << ticket.status().to_string();
  EXPECT_EQ(*ticket, 0xABCDEF0123456789ULL);
  EXPECT_EQ(runner.wait(*ticket, 5).to_string(), "deadline_exceeded: 5 us is too short");
  ASSERT_EQ(runner.wait(*ticket, int64_t{1} << 44).to_string(), "ok");
  EXPECT_THAT(step.tokens, ElementsAre(601, 602));
  EXPECT_THAT(step.row_status, ElementsAre(611, 612));
  EXPECT_THAT(step.logprobs, ElementsAre(621, 622));
  EXPECT_THAT(step.top_tokens, ElementsAre(631, 632, 633, 634, 635, 636));
  EXPECT_THAT(step.top_logprobs, ElementsAre(641, 642, 643, 644, 645, 646));
  EXPECT_THAT(step.logits, ElementsAre(651, 652, 653, 654, 655, 656, 657, 658));
}

TEST_F(EveryFieldTest, OfAMemoryPlan) {
  ASSERT_NO_FATAL_FAILURE(load());
  const Result<MemoryPlan> plan =
      model_->plan_memory(literals::kv_options(), literals::capture_options());
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(literals::difference(*plan, literals::memory_plan()), "");
}

TEST_F(EveryFieldTest, OfABucketCapturedLater) {
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> capture = model_->capture_decode(*kv_, literals::capture_options());
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  const Result<CaptureReport> report = capture->runner->capture_bucket(16);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(literals::difference(*report, literals::bucket_capture_report()), "");
  EXPECT_EQ(capture->runner->capture_bucket(17).status().to_string(), "not_found: bucket 17");
}

TEST_F(EveryFieldTest, OfACaptureMadeToFail) {
  ASSERT_NO_FATAL_FAILURE(load());
  EXPECT_EQ(model_->fail_capture(12, Reason::kCaptureFailed).to_string(),
            "internal: bucket 12, reason 16");
}

TEST_F(EveryFieldTest, OfATrace) {
  ASSERT_NO_FATAL_FAILURE(load());
  Result<RunnerCapture> capture = model_->create_eager(*kv_, literals::capture_options());
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  literals::Step step;
  const Result<std::vector<TraceEvent>> events =
      capture->runner->trace(step.batch(), step.output());
  ASSERT_TRUE(events.ok()) << events.status().to_string();
  EXPECT_EQ(literals::difference(*events, literals::trace_events()), "");
  EXPECT_THAT(step.tokens, ElementsAre(601, 602));
}

TEST_F(EveryFieldTest, OfALayerOutput) {
  ASSERT_NO_FATAL_FAILURE(load());
  int32_t calls = 0;
  ASSERT_TRUE(model_
                  ->set_layer_observer([&](const LayerOutput& output) {
                    ++calls;
                    EXPECT_EQ(output.layer, 9);
                    EXPECT_EQ(output.num_tokens, 2);
                    EXPECT_EQ(output.hidden_size, 3);
                    EXPECT_EQ(output.hidden[5], 6.0F);
                  })
                  .ok());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(model_->set_layer_observer({}).ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace encore
