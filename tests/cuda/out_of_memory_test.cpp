// Memory that runs out at every allocation in turn: a clear error, nothing leaked, and the next try
// in the same process works.
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda_test_support.h"

namespace encore::cuda::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr int32_t kPromptTokens = 20;
constexpr int32_t kDecodeSteps = 3;

// The driver takes memory in pieces of 2 MiB, and now and then a few for itself.
constexpr int64_t kDriverBytes = int64_t{8} << 20;

// Which kernels compute a product is timed anew with each load, and they round bf16 differently.
constexpr double kLogitError = 0.03;

struct Outcome {
  std::string failed_call;  // empty: all went well
  Status status;
  std::vector<BucketReport> skipped;
  // Of the prompt's last token and each decode step; by graphs, then again eagerly.
  std::vector<std::vector<float>> logits;
};

void note_skipped(const CaptureReport& report, Outcome& outcome) {
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason != Reason::kNone) outcome.skipped.push_back(bucket);
  }
}

// One request: its prompt, then a few tokens. Steps whose bucket was skipped run eagerly.
void run_request(StepDriver& driver, int64_t vocab_size, Runner& prefill, Runner& decode,
                 Runner& eager, Outcome& outcome) {
  Sequence sequence =
      driver.start(encore::testing::random_tokens(11, kPromptTokens + kDecodeSteps, vocab_size));
  for (int32_t step = 0; step <= kDecodeSteps; ++step) {
    const int32_t count = step == 0 ? kPromptTokens : 1;
    Runner& graph = step == 0 ? prefill : decode;
    const bool captured = graph.check(driver.batch_of({{&sequence, count}}).view(), {}).ok();
    StepResult result = driver.run(captured ? graph : eager, {{&sequence, count}});
    outcome.logits.push_back(std::move(result.logits.at(0)));
  }
  driver.finish(sequence);
}

// Everything from the files to a few steps, as a host would do it.
Outcome serve(CudaBackend& backend, const ModelFiles& files) {
  Outcome outcome;
  const auto failed = [&](const char* call, const Status& status) {
    outcome.failed_call = call;
    outcome.status = status;
    return outcome;
  };
  const RunnersOptions options = small_runners();
  const CaptureOptions& capture = options.graphs.capture;
  auto model = backend.load_model(0, files.spec, *files.weights, LoadOptions{});
  if (!model.ok()) return failed("load_model", model.status());
  auto kv = (*model)->create_kv({options.num_pages, options.page_size, options.kv_dtype, true});
  if (!kv.ok()) return failed("create_kv", kv.status());
  auto eager = (*model)->create_eager(**kv, capture);
  if (!eager.ok()) return failed("create_eager", eager.status());
  auto prefill = (*model)->capture_prefill(**kv, capture);
  if (!prefill.ok()) return failed("capture_prefill", prefill.status());
  auto decode = (*model)->capture_decode(**kv, capture);
  if (!decode.ok()) return failed("capture_decode", decode.status());
  note_skipped(prefill->report, outcome);
  note_skipped(decode->report, outcome);

  const int64_t allocations = counter(backend, "memory.allocations");
  StepDriver driver(files.spec, **kv);
  const int64_t vocab_size = files.spec.vocab_size;
  run_request(driver, vocab_size, *prefill->runner, *decode->runner, *eager->runner, outcome);
  run_request(driver, vocab_size, *eager->runner, *eager->runner, *eager->runner, outcome);
  EXPECT_EQ(counter(backend, "memory.allocations"), allocations) << "a step has allocated";
  EXPECT_TRUE((*model)->check_guards().ok());
  return outcome;
}

void expect_clean(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(outcome.failed_call, "") << outcome.status.to_string();
  EXPECT_TRUE(outcome.skipped.empty());
  ASSERT_EQ(outcome.logits.size(), expected.logits.size());
  for (size_t i = 0; i < outcome.logits.size(); ++i) {
    EXPECT_LE(logit_error(outcome.logits[i], expected.logits[i]), kLogitError) << "step " << i;
  }
}

// Nothing of the backend's is left, and no error waits to be found by somebody else.
void expect_nothing_left(const CudaBackend& backend, int64_t free_bytes) {
  EXPECT_EQ(counter(backend, kAllocatedBytesStat), 0);
  EXPECT_EQ(counter(backend, "memory.page_locked_bytes"), 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_GE(free_device_bytes(), free_bytes - kDriverBytes);
}

// What was short, from a message that also tells how much it was and how much there is.
std::string what_was_short(const std::string& message) {
  constexpr const char* kDevice =
      "(.*: )?no room on the device for .+ of [0-9]+ (bytes|nodes); [0-9]+ of [0-9]+ bytes are "
      "free";
  constexpr const char* kHost = "(.*: )?no page-locked host memory for .+ of [0-9]+ bytes; .+";
  EXPECT_THAT(message, ::testing::AnyOf(MatchesRegex(kDevice), MatchesRegex(kHost)));
  std::smatch match;
  const std::regex name(" for (.+) of [0-9]+ (bytes|nodes);");
  return std::regex_search(message, match, name) ? match[1].str() : message;
}

class OutOfMemoryTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    files_ = open_golden("tiny_llama.q8_0.gguf");  // quantised: staging on the device too
    // Twice: the first run loads kernels and times algorithms.
    for (int round = 0; round < 2; ++round) {
      const auto backend = make_backend();
      clean_ = serve(*backend, files_);
      ASSERT_EQ(clean_.failed_call, "") << clean_.status.to_string();
      allocations_ = counter(*backend, "memory.allocations");
    }
    free_bytes_ = free_device_bytes();
  }

  ModelFiles files_;
  Outcome clean_;
  int64_t allocations_ = 0;  // that serve() makes
  int64_t free_bytes_ = 0;   // on the device, with nothing loaded
};

TEST_F(OutOfMemoryTest, EveryAllocationInTurnFailsCleanly) {
  ASSERT_GT(allocations_, 20);
  std::set<std::string> short_of;
  std::set<std::string> failed_calls;
  for (int64_t failing = 1; failing <= allocations_; ++failing) {
    SCOPED_TRACE("allocation " + std::to_string(failing));
    const auto backend = make_backend(failing);
    const Outcome outcome = serve(*backend, files_);
    if (outcome.skipped.empty()) {
      EXPECT_EQ(outcome.status.code(), StatusCode::kOutOfMemory) << outcome.status.to_string();
      short_of.insert(what_was_short(outcome.status.message()));
      failed_calls.insert(outcome.failed_call);
    } else {
      // A graph that does not fit costs its bucket; the others serve.
      EXPECT_EQ(outcome.failed_call, "") << outcome.status.to_string();
      ASSERT_EQ(outcome.skipped.size(), 1U);
      EXPECT_EQ(outcome.skipped[0].reason, Reason::kOutOfMemory);
      short_of.insert(what_was_short(outcome.skipped[0].message));
      ASSERT_EQ(outcome.logits.size(), clean_.logits.size());
      for (size_t i = 0; i < clean_.logits.size(); ++i) {
        EXPECT_LE(logit_error(outcome.logits[i], clean_.logits[i]), kLogitError) << "step " << i;
      }
    }
    expect_nothing_left(*backend, free_bytes_);
    expect_clean(serve(*backend, files_), clean_);
    expect_nothing_left(*backend, free_bytes_);
    if (HasFailure()) return;
  }
  for (const char* name :
       {"the weights", "weight staging, host", "weight staging, device", "rotary frequencies",
        "the BLAS workspace", "operands of timed products", "the workspace", "KV cache",
        "step inputs", "step results", "arena", "staged inputs", "staged results", "a graph"}) {
    EXPECT_THAT(short_of, Contains(std::string(name)));
  }
  EXPECT_EQ(failed_calls, (std::set<std::string>{"load_model", "create_kv", "create_eager"}));
}

// The device itself says no.
TEST_F(OutOfMemoryTest, CacheLargerThanTheDeviceIsRefusedAndASmallerOneServes) {
  const auto backend = make_backend();
  TestModel model = load(*backend, "tiny_llama.q8_0.gguf");
  const auto refused = model.model->create_kv({1 << 30, 64, DType::kF32, false});
  ASSERT_EQ(refused.status().code(), StatusCode::kOutOfMemory) << refused.status().to_string();
  EXPECT_EQ(what_was_short(refused.status().message()), "KV cache");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);

  const Runners runners = encore::testing::make_runners(model, small_runners());
  StepDriver driver(model.spec(), *runners.kv);
  Sequence sequence = driver.start(
      encore::testing::random_tokens(11, kPromptTokens + kDecodeSteps, model.spec().vocab_size));
  const StepResult result =
      driver.run(*runners.graphs.prefill.runner, {{&sequence, kPromptTokens}});
  EXPECT_LE(logit_error(result.logits.at(0), clean_.logits[0]), kLogitError);
}

TEST_F(OutOfMemoryTest, CancelledLoadLeavesNothing) {
  const auto backend = make_backend();
  int calls = 0;
  LoadOptions options;
  options.progress = [&](int64_t, int64_t) { return ++calls < 2; };
  const auto model = backend->load_model(0, files_.spec, *files_.weights, options);
  EXPECT_EQ(model.status().code(), StatusCode::kCancelled) << model.status().to_string();
  expect_nothing_left(*backend, free_bytes_);
  expect_clean(serve(*backend, files_), clean_);
}

// Weights whose file shrinks while it is read, after so many reads.
class ShrinkingWeights final : public WeightSource {
 public:
  ShrinkingWeights(const WeightSource& whole, int good_reads)
      : whole_(whole), good_reads_(good_reads) {}

  std::span<const WeightInfo> weights() const override { return whole_.weights(); }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    if (good_reads_.fetch_sub(1) <= 0) return data_loss("the file has shrunk");
    return whole_.read(index, offset, destination);
  }
  const std::byte* map(size_t) const override { return nullptr; }
  void release(size_t) const override {}

 private:
  const WeightSource& whole_;
  mutable std::atomic<int> good_reads_;
};

TEST_F(OutOfMemoryTest, FileThatShrinksWhileItIsReadLeavesNothing) {
  const auto backend = make_backend();
  const auto num_weights = static_cast<int>(files_.weights->weights().size());
  for (const int good_reads : {0, 1, num_weights / 2, num_weights - 1}) {
    SCOPED_TRACE(good_reads);
    const ShrinkingWeights weights(*files_.weights, good_reads);
    const auto model = backend->load_model(0, files_.spec, weights, LoadOptions{});
    EXPECT_EQ(model.status().code(), StatusCode::kDataLoss) << model.status().to_string();
    EXPECT_THAT(model.status().message(), HasSubstr("the file has shrunk"));
    expect_nothing_left(*backend, free_bytes_);
  }
  expect_clean(serve(*backend, files_), clean_);
}

}  // namespace
}  // namespace encore::cuda::testing
