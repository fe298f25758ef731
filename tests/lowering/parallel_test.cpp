// Several ranks compute what one computes, decide together, and end together. On the CPU backend.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../runners/step_driver.h"
#include "cpu_ranks.h"
#include "encore/lowering/lowered_model.h"
#include "faulty_ranks.h"
#include "parallel_core.h"
#include "random_model.h"

namespace encore::testing {
namespace {

using Clock = std::chrono::steady_clock;

CaptureOptions capture_options() {
  CaptureOptions options;
  options.limits.max_requests = 4;
  options.limits.max_tokens = 64;
  options.limits.max_context = 128;
  options.limits.max_logprobs = 2;
  options.limits.max_history = 256;
  options.limits.max_biases = 16;
  options.prefill_buckets = {16, 64};
  options.decode_buckets = {1, 2, 4};
  options.guards = true;
  return options;
}

std::unique_ptr<cpu::CpuRanks> cpu_ranks(int32_t ranks, int32_t threads, int64_t limit_us) {
  std::vector<std::shared_ptr<cpu::ThreadTeam>> teams;
  teams.reserve(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    teams.push_back(std::make_shared<cpu::ThreadTeam>(
        std::vector<int32_t>(static_cast<size_t>(threads), 0), false));
  }
  return std::make_unique<cpu::CpuRanks>(std::move(teams), kernels::cpu_features().level, limit_us);
}

// The model with its runners, on `ranks` ranks.
struct Rig {
  ModelSpec spec;
  RandomWeights weights;
  Faults faults;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvCache> kv;
  RunnerCapture eager, prefill, decode;

  Rig(const ModelSpec& model_spec, DType dtype) : spec(model_spec), weights(spec, dtype) {}

  Status load(int32_t ranks, int32_t threads = 1, int64_t limit_us = 5'000'000) {
    const LoadOptions options;
    if (ranks == 1) {
      auto device = std::make_unique<cpu::CpuDevice>(
          std::make_shared<cpu::ThreadTeam>(std::vector<int32_t>{0}, false),
          kernels::cpu_features().level);
      ENCORE_ASSIGN_OR_RETURN(
          model, lowering::LoweredModel::load(std::move(device), spec, weights, options));
      return {};
    }
    auto group = std::make_unique<FaultyRanks>(cpu_ranks(ranks, threads, limit_us), faults);
    ENCORE_ASSIGN_OR_RETURN(
        model, lowering::ParallelModel::load(std::move(group), spec, weights, options,
                                             {.step_us = limit_us, .setup_us = 10'000'000}));
    return {};
  }
  Status capture(const CaptureOptions& options = capture_options()) {
    KvOptions kv_options;
    kv_options.num_pages = 32;
    kv_options.dtype = DType::kF32;
    kv_options.guards = true;
    ENCORE_ASSIGN_OR_RETURN(kv, model->create_kv(kv_options));
    ENCORE_ASSIGN_OR_RETURN(eager, model->create_eager(*kv, options));
    ENCORE_ASSIGN_OR_RETURN(prefill, model->capture_prefill(*kv, options));
    ENCORE_ASSIGN_OR_RETURN(decode, model->capture_decode(*kv, options));
    return {};
  }
};

// A prompt, chunks, mixed steps and decodes, by all three runners.
std::vector<std::vector<float>> run_all(Rig& rig) {
  StepDriver driver(rig.spec, *rig.kv);
  std::vector<std::vector<float>> logits;
  const auto keep = [&](StepResult result) {
    for (auto& row : result.logits) logits.push_back(std::move(row));
  };
  Sequence a = driver.start(random_tokens(1, 60, rig.spec.vocab_size));
  Sequence b = driver.start(random_tokens(2, 60, rig.spec.vocab_size));
  keep(driver.run(*rig.eager.runner, {{&a, 11}}));
  keep(driver.run(*rig.prefill.runner, {{&b, 20}}));
  keep(driver.run(*rig.prefill.runner, {{&a, 5}, {&b, 1}}));
  keep(driver.run(*rig.decode.runner, {{&a, 1}, {&b, 1}}));
  keep(driver.run(*rig.decode.runner, {{&b, 1}}));
  keep(driver.run(*rig.eager.runner, {{&a, 1}, {&b, 7}}));
  return logits;
}

void expect_close(const std::vector<std::vector<float>>& found,
                  const std::vector<std::vector<float>>& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t row = 0; row < found.size(); ++row) {
    ASSERT_EQ(found[row].size(), expected[row].size());
    for (size_t i = 0; i < found[row].size(); ++i) {
      ASSERT_NEAR(found[row][i], expected[row][i], tolerance) << "row " << row << ", logit " << i;
    }
  }
}

struct Case {
  const char* name;
  DType dtype;
  int32_t ranks;
  int32_t threads;
  PrefillMode mode;
  int64_t vocab_size;
  bool tied;
};

class ParallelLogits : public ::testing::TestWithParam<Case> {};

// Fault L4 among them: head_dim of its own, Q/K norms, more ranks than KV heads.
TEST_P(ParallelLogits, EqualOneRanks) {
  ModelSpec spec = small_spec();
  spec.vocab_size = GetParam().vocab_size;
  spec.tied_embeddings = GetParam().tied;
  CaptureOptions options = capture_options();
  options.prefill_mode = GetParam().mode;
  Rig one(spec, GetParam().dtype);
  ASSERT_TRUE(one.load(1).ok());
  ASSERT_TRUE(one.capture(options).ok());
  const auto expected = run_all(one);
  options.poison = true;
  Rig several(spec, GetParam().dtype);
  const Status loaded = several.load(GetParam().ranks, GetParam().threads);
  ASSERT_TRUE(loaded.ok()) << loaded.to_string();
  const Status captured = several.capture(options);
  ASSERT_TRUE(captured.ok()) << captured.to_string();
  // f32 sums in another order; q8_0 linears also round their input, which a last bit may tip.
  expect_close(run_all(several), expected, GetParam().dtype == DType::kF32 ? 2e-4F : 0.05F);
  const Status guards = several.model->check_guards();
  EXPECT_TRUE(guards.ok()) << guards.to_string();
}

constexpr PrefillMode kFull = PrefillMode::kFull;
INSTANTIATE_TEST_SUITE_P(
    Models, ParallelLogits,
    ::testing::Values(Case{"two", DType::kF32, 2, 2, kFull, 256, false},
                      Case{"four", DType::kF32, 4, 1, kFull, 256, false},
                      Case{"breakable", DType::kF32, 2, 1, PrefillMode::kBreakable, 256, false},
                      Case{"tied", DType::kF32, 2, 1, kFull, 256, true},
                      Case{"padded_head", DType::kF32, 2, 1, kFull, 260, true},
                      Case{"padded_untied_head", DType::kF32, 4, 1, kFull, 257, false},
                      Case{"rank_without_vocabulary", DType::kF32, 4, 1, kFull, 20, false},
                      Case{"q8_0_two", DType::kQ8_0, 2, 1, kFull, 256, false},
                      Case{"q8_0_padded", DType::kQ8_0, 2, 1, kFull, 260, true},
                      Case{"q8_0_four", DType::kQ8_0, 4, 2, kFull, 256, false}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(ParallelModel, RefusesAnImpossibleDivisionBeforeAnythingIsMade) {
  ModelSpec spec = small_spec();
  spec.num_heads = 6;
  Rig rig(spec, DType::kF32);
  const Status status = rig.load(4);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("num_heads is 6"), std::string::npos) << status.message();
}

TEST(ParallelModel, ProgressIsReportedByTheCallersThreadAndCanCancel) {
  const RandomWeights weights(small_spec(), DType::kF32);
  const auto caller = std::this_thread::get_id();
  LoadOptions options;
  int64_t last_done = 0;
  int64_t last_total = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    last_done = done;
    last_total = total;
    return true;
  };
  auto model =
      lowering::ParallelModel::load(cpu_ranks(2, 1, 5'000'000), small_spec(), weights, options);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(last_done, last_total);
  EXPECT_GT(last_total, 0);
}

// Each read takes a while, the second rank's first one longer.
class SlowWeights final : public WeightSource {
 public:
  SlowWeights(std::chrono::milliseconds first, std::chrono::milliseconds each)
      : weights_(small_spec(), DType::kF32, false), first_(first), each_(each) {}

  std::span<const WeightInfo> weights() const override { return weights_.weights(); }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    const bool first = offset > 0 && !read_.exchange(true);
    std::this_thread::sleep_for(first ? first_ : each_);
    Status status = weights_.read(index, offset, destination);
    num_reads_.fetch_add(1);
    return status;
  }
  const std::byte* map(size_t) const override { return nullptr; }
  void release(size_t) const override {}
  int64_t num_reads() const { return num_reads_; }

 private:
  RandomWeights weights_;
  std::chrono::milliseconds first_;
  std::chrono::milliseconds each_;
  mutable std::atomic<bool> read_{
      false};  // the second rank, which alone reads from within a matrix
  mutable std::atomic<int64_t> num_reads_{0};
};

TEST(ParallelModel, ASlowDiskEndsNoLoad) {
  const SlowWeights weights(std::chrono::milliseconds(20), std::chrono::milliseconds(20));
  const auto start = Clock::now();
  const auto model =
      lowering::ParallelModel::load(cpu_ranks(2, 1, 5'000'000), small_spec(), weights, {},
                                    {.step_us = 5'000'000, .setup_us = 200'000});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_GT(Clock::now() - start, std::chrono::milliseconds(400));
}

TEST(ParallelModel, ARankGivenUpWhileLoadingReadsNoMoreOnceTheLoadHasFailed) {
  const SlowWeights weights(std::chrono::milliseconds(2500), std::chrono::milliseconds(1));
  const auto model =
      lowering::ParallelModel::load(cpu_ranks(2, 1, 5'000'000), small_spec(), weights, {},
                                    {.step_us = 5'000'000, .setup_us = 100'000});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().message(),
            "rank 1 did not answer while loading; the model cannot go on");
  const int64_t reads = weights.num_reads();
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  EXPECT_EQ(weights.num_reads(), reads);
}

TEST(ParallelModel, AnObserverSeesEachLayerOnce) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2).ok());
  int32_t calls = 0;
  ASSERT_TRUE(rig.model->set_layer_observer([&](const LayerOutput&) { ++calls; }).ok());
  ASSERT_TRUE(rig.capture().ok());
  StepDriver driver(rig.spec, *rig.kv);
  Sequence sequence = driver.start(random_tokens(1, 9, rig.spec.vocab_size));
  driver.run(*rig.prefill.runner, {{&sequence, 9}});
  EXPECT_EQ(calls, 2);
}

// Fault G5.
TEST(ParallelCapture, ABucketThatOneRankCannotCaptureIsDroppedByAll) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2).ok());
  KvOptions kv_options;
  kv_options.num_pages = 32;
  ASSERT_TRUE(rig.capture().ok());
  rig.faults.captures_to_fail = 1;  // the largest comes first
  auto decode = rig.model->capture_decode(*rig.kv, capture_options());
  ASSERT_TRUE(decode.ok()) << decode.status().to_string();
  ASSERT_EQ(decode->report.buckets.size(), 3U);
  const BucketReport& largest = decode->report.buckets[0];
  EXPECT_EQ(largest.bucket, 4);
  EXPECT_EQ(largest.reason, Reason::kOutOfMemory);
  EXPECT_NE(largest.message.find("rank 1"), std::string::npos) << largest.message;
  EXPECT_EQ(decode->report.buckets[1].reason, Reason::kNone);
  StepDriver driver(rig.spec, *rig.kv);
  std::vector<Sequence> sequences;
  for (uint64_t i = 0; i < 3; ++i) {
    sequences.push_back(driver.start(random_tokens(i, 10, rig.spec.vocab_size)));
  }
  const OwnedBatch three =
      driver.batch_of({{&sequences[0], 1}, {&sequences[1], 1}, {&sequences[2], 1}});
  EXPECT_EQ(decode->runner->check(three.view(), {}).reason, Reason::kNotCaptured);
  driver.run(*decode->runner, {{&sequences[0], 1}, {&sequences[1], 1}});
}

TEST(ParallelCapture, WhatOneRankCannotAllocateIsAnErrorThatNamesIt) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2).ok());
  rig.faults.allocation_limit = 1024;
  const Status status = rig.capture();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  rig.faults.allocation_limit = -1;
  const Status again = rig.capture();
  EXPECT_TRUE(again.ok()) << again.to_string();
}

// What the step ends with, and how long that took.
struct Ending {
  Status status;
  double seconds = 0.0;
};

Ending step_once(Rig& rig) {
  StepDriver driver(rig.spec, *rig.kv);
  Sequence sequence = driver.start(random_tokens(1, 9, rig.spec.vocab_size));
  const OwnedBatch batch = driver.batch_of({{&sequence, 9}});
  int32_t token = 0;
  int32_t row_status = 0;
  StepOutput output;
  output.tokens = {&token, 1};
  output.row_status = {&row_status, 1};
  const auto start = Clock::now();
  const auto seconds = [&]() {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto ticket = rig.prefill.runner->submit(batch.view(), output);
  if (!ticket.ok()) return {ticket.status(), seconds()};
  return {rig.prefill.runner->wait(*ticket, -1), seconds()};
}

// The rank is named, and so is the step; every later call ends the same way, at once.
void expect_lost(Rig& rig, const Ending& ending, const char* rank) {
  EXPECT_EQ(ending.status.code(), StatusCode::kInternal) << ending.status.to_string();
  EXPECT_NE(ending.status.message().find(rank), std::string::npos) << ending.status.message();
  EXPECT_NE(ending.status.message().find("step 1"), std::string::npos) << ending.status.message();
  EXPECT_LT(ending.seconds, 10.0);
  const Ending later = step_once(rig);
  EXPECT_EQ(later.status.message(), ending.status.message());
  EXPECT_LT(later.seconds, 0.5);
}

TEST(ParallelFailure, ARankThatHangsIsNamedWithinTheLimit) {
#if defined(__SANITIZE_THREAD__)
  // The hanging thread never comes back, so nothing orders what it has read of the batch with the
  // end of the batch.
  GTEST_SKIP() << "a thread that hangs looks like a race";
#endif
  auto rig = std::make_unique<Rig>(small_spec(), DType::kF32);
  ASSERT_TRUE(rig->load(2, 1, 2'000'000).ok());
  ASSERT_TRUE(rig->capture().ok());
  rig->faults.launches_hang = true;
  expect_lost(*rig, step_once(*rig), "rank 1");
  // What the lost rank may still use is kept, the faults among it.
  rig->prefill.runner.reset();
  rig->decode.runner.reset();
  rig->eager.runner.reset();
  rig->kv.reset();
  rig->model.reset();
  // Never destroyed: the rank still looks at them while the process ends.
  static auto* const kept = new std::vector<std::unique_ptr<Rig>>;
  kept->push_back(std::move(rig));
}

TEST(ParallelFailure, ARankThatFailsAloneIsNamed) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2, 1, 2'000'000).ok());
  ASSERT_TRUE(rig.capture().ok());
  rig.faults.launches_fail = true;
  expect_lost(rig, step_once(rig), "rank 1: the device has fallen off the bus");
}

// Ranks whose devices work by themselves: a step is submitted long before it meets anybody.
class AsynchronousRanks final : public lowering::RankGroup {
 public:
  explicit AsynchronousRanks(std::shared_ptr<std::atomic<int32_t>> aborts)
      : aborts_(std::move(aborts)) {}
  int32_t size() const override { return 2; }
  Result<std::unique_ptr<lowering::Device>> make_device(int32_t) override {
    return unimplemented("this test needs none");
  }
  void abort() override { ++*aborts_; }

 private:
  std::shared_ptr<std::atomic<int32_t>> aborts_;
};

// Rank 0's device waits for rank 1 for ever, although rank 0's thread has answered.
TEST(ParallelFailure, WhatTheOtherRanksHaveSubmittedIsEnded) {
  auto aborts = std::make_shared<std::atomic<int32_t>>(0);
  auto core = lowering::ParallelCore::create(std::make_unique<AsynchronousRanks>(aborts), {});
  ASSERT_TRUE(core.ok());
  const auto submit = [](int32_t rank) {
    return rank == 1 ? internal_error("no such kernel") : Status{};
  };
  const Status status = (*core)->step({"submitting", 7}, submit);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  EXPECT_GT(aborts->load(), 0);
}

TEST(ParallelFailure, RanksThatSampleDifferentTokensAreNoticed) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2).ok());
  ASSERT_TRUE(rig.capture().ok());
  rig.faults.wrong_tokens = true;
  expect_lost(rig, step_once(rig), "rank 1 sampled token");
}

TEST(ParallelFailure, AFaultyBatchIsRefusedByAllAndNothingIsLost) {
  Rig rig(small_spec(), DType::kF32);
  ASSERT_TRUE(rig.load(2).ok());
  ASSERT_TRUE(rig.capture().ok());
  StepDriver driver(rig.spec, *rig.kv);
  Sequence sequence = driver.start(random_tokens(1, 9, rig.spec.vocab_size));
  OwnedBatch batch = driver.batch_of({{&sequence, 9}});
  batch.token_ids[3] = 1 << 20;
  int32_t token = 0;
  int32_t row_status = 0;
  StepOutput output;
  output.tokens = {&token, 1};
  output.row_status = {&row_status, 1};
  EXPECT_EQ(rig.prefill.runner->submit(batch.view(), output).status().code(),
            StatusCode::kInvalidArgument);
  const Ending ending = step_once(rig);
  EXPECT_TRUE(ending.status.ok()) << ending.status.to_string();
}

}  // namespace
}  // namespace encore::testing
