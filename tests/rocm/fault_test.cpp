// The plugin as it is built, on the stand-in for HIP, with every call that it makes failing in
// turn: the error is told where it belongs, nothing is leaked or used wrongly, and the next try in
// the same process works.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control.h"
#include "driver/runner_set.h"
#include "driver/step_driver.h"
#include "encore/loader/options.h"
#include "encore/loader/plugin_loader.h"
#include "model/model_files.h"

namespace encore::rocm {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Eq;
using ::testing::HasSubstr;

// hipError_t: what is planned, and the words in which it is told.
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kIllegalAddress = 700;
constexpr int kLaunchFailure = 719;

struct Outcome {
  Status status;                      // of the first call that failed
  bool in_step = false;               // it was a step's: before, nothing but the call can be spoilt
  std::vector<BucketReport> skipped;  // buckets that were not captured
  std::vector<float> logits;          // of all steps, one after the other
};

// A backend of this process, initialised for each try.
class RocmFaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto files = open_model(ENCORE_GOLDEN_MODEL);
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    model_files = std::make_unique<ModelFiles>(std::move(files).value());
    // Twice: the first try starts what lives as long as the process.
    for (int round = 0; round < 2; ++round) {
      encore_standin_fail("");
      clean_outcome = try_all();
      ASSERT_TRUE(clean_outcome.status.ok()) << clean_outcome.status.to_string();
      ASSERT_TRUE(clean_outcome.skipped.empty()) << clean_outcome.skipped[0].message;
    }
    std::istringstream calls(encore_standin_all_calls());
    std::string name;
    int64_t count = 0;
    while (calls >> name >> count) calls_of_a_try[name] = count;
  }
  static void TearDownTestSuite() { model_files.reset(); }

  void SetUp() override {
    ASSERT_TRUE(clean_outcome.status.ok());
    ASSERT_FALSE(clean_outcome.logits.empty());
  }

  // Everything from loading the plugin to a few steps, and back.
  static Outcome try_all();

  // That call of that function fails with that code; what came of it, after the check that nothing
  // is left of it.
  static Outcome try_with(const std::string& function, int64_t number, int code) {
    const std::string plan = function + ":" + std::to_string(number) + ":" + std::to_string(code);
    SCOPED_TRACE(plan);
    encore_standin_fail(plan.c_str());
    const int64_t misuses = encore_standin_misuses();
    Outcome outcome = try_all();
    EXPECT_GE(encore_standin_calls(function.c_str()), number) << "nothing has failed";
    EXPECT_STREQ(encore_standin_held(), "");
    EXPECT_EQ(encore_standin_misuses(), misuses);
    encore_standin_fail("");
    return outcome;
  }
  // Without failures all is as it was in the beginning.
  static void expect_recovered() {
    encore_standin_fail("");
    const Outcome outcome = try_all();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_EQ(outcome.logits, clean_outcome.logits);
  }
  // `few` numbers from 1 to `count`: the first ones, and others up to the last.
  static std::set<int64_t> some_of(int64_t count, int64_t few) {
    std::set<int64_t> numbers;
    for (int64_t i = 1; i <= std::min(count, few / 2); ++i) numbers.insert(i);
    for (int64_t i = 1; i <= few / 2; ++i)
      numbers.insert(std::max<int64_t>(1, count * i / (few / 2)));
    return numbers;
  }
  static int64_t calls(const std::string& function) {
    const auto found = calls_of_a_try.find(function);
    return found == calls_of_a_try.end() ? 0 : found->second;
  }

  static std::unique_ptr<ModelFiles> model_files;
  static Outcome clean_outcome;
  static std::map<std::string, int64_t> calls_of_a_try;  // that a try makes
};

std::unique_ptr<ModelFiles> RocmFaultTest::model_files;
Outcome RocmFaultTest::clean_outcome;
std::map<std::string, int64_t> RocmFaultTest::calls_of_a_try;

check::RunnerSetOptions small_set() {
  check::RunnerSetOptions options = check::small_options();
  options.kv.num_pages = 16;
  options.kv.dtype = DType::kBF16;
  options.capture.limits.max_tokens = 16;
  options.capture.prefill_buckets = {16};
  options.capture.decode_buckets = {1, 2};
  options.prefill = true;
  options.decode = true;
  return options;
}

void note_skipped(const std::optional<RunnerCapture>& capture, Outcome* outcome) {
  if (!capture.has_value()) return;
  for (const BucketReport& bucket : capture->report.buckets) {
    if (bucket.reason != Reason::kNone) outcome->skipped.push_back(bucket);
  }
}

// One request: its prompt and two tokens. A bucket that was skipped is replaced by eager steps.
Status run_steps(int64_t vocab_size, check::RunnerSet& set, Outcome* outcome) {
  check::StepDriver driver(vocab_size, *set.kv);
  check::Request request = check::make_request(check::random_tokens(7, 14, vocab_size));
  for (const int32_t count : {12, 1, 1}) {
    const std::vector<check::Work> work{{&request, count, true}};
    ENCORE_RETURN_IF_ERROR(driver.reserve(request, count));
    Runner& graph = count > 1 ? *set.prefill->runner : *set.decode->runner;
    const bool skipped = !outcome->skipped.empty();
    ENCORE_ASSIGN_OR_RETURN(const check::StepResult result,
                            driver.run(skipped ? *set.eager->runner : graph, work));
    outcome->logits.insert(outcome->logits.end(), result.logits.at(0).begin(),
                           result.logits.at(0).end());
  }
  return {};
}

Outcome RocmFaultTest::try_all() {
  Outcome outcome;
  const auto all = [&]() -> Status {
    ENCORE_ASSIGN_OR_RETURN(LoadedPlugin plugin, load_plugin(ENCORE_ROCM_PLUGIN, {"test", {}},
                                                             nullptr, {.probe = false}));
    Backend& backend = *plugin.backend;
    const ProbeResult probed = backend.probe();
    if (!probed.usable) return unavailable(probed.reason);
    const OptionValues given{{"blas", "rocblas"}};
    ENCORE_ASSIGN_OR_RETURN(const OptionValues options,
                            check_options(backend.option_schema(), given));
    ENCORE_RETURN_IF_ERROR(backend.init(options));
    ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                            backend.load_model(0, model_files->spec, *model_files->weights, {}));
    ENCORE_ASSIGN_OR_RETURN(check::RunnerSet set, check::make_runner_set(*model, small_set()));
    note_skipped(set.prefill, &outcome);
    note_skipped(set.decode, &outcome);
    const Status stepped = run_steps(model_files->spec.vocab_size, set, &outcome);
    outcome.in_step = !stepped.ok();
    return stepped;
  };
  outcome.status = all();
  return outcome;
}

// The failure was told, in its own words, by the call that met it or by the bucket that it cost;
// and so far reaches it.
void expect_told(const Outcome& outcome, StatusCode code, const std::string& words) {
  if (outcome.skipped.empty()) {
    EXPECT_EQ(outcome.status.code(), code) << outcome.status.to_string();
    EXPECT_THAT(outcome.status.message(), ContainsRegex(words));
    EXPECT_EQ(outcome.status.scope(), outcome.in_step ? Scope::kRunner : Scope::kRequest);
    return;
  }
  for (const BucketReport& bucket : outcome.skipped) {
    EXPECT_THAT(bucket.message, ContainsRegex(words));
  }
}

// The device is lost, which is told as such by the call that met it. No bucket is to blame.
void expect_lost(const Outcome& outcome, const std::string& words) {
  EXPECT_EQ(outcome.status.code(), StatusCode::kInternal) << outcome.status.to_string();
  EXPECT_EQ(outcome.status.scope(), Scope::kDevice) << outcome.status.to_string();
  EXPECT_THAT(outcome.status.message(), HasSubstr(words));
  EXPECT_TRUE(outcome.skipped.empty());
}

TEST_F(RocmFaultTest, ScenarioUsesWhatIsToFail) {
  for (const char* function :
       {"hipMalloc", "hipHostMalloc", "hipStreamBeginCapture", "hipStreamEndCapture",
        "hipGraphInstantiate", "hipGraphLaunch", "hipLaunchKernel", "hipMemcpyAsync",
        "hipStreamSynchronize", "operation"}) {
    EXPECT_GT(calls(function), 0) << function;
  }
}

TEST_F(RocmFaultTest, EveryAllocationInTurn) {
  for (const char* function : {"hipMalloc", "hipHostMalloc"}) {
    for (int64_t number = 1; number <= calls(function); ++number) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(number));
      const Outcome outcome = try_with(function, number, kOutOfMemory);
      expect_told(outcome, StatusCode::kOutOfMemory, "no room on the device|no page-locked");
      if (HasFailure()) return;
    }
  }
  expect_recovered();
}

// A bucket that cannot be made costs itself alone.
TEST_F(RocmFaultTest, EveryCaptureAndInstantiationInTurn) {
  for (const char* function :
       {"hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate"}) {
    for (int64_t number = 1; number <= calls(function); ++number) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(number));
      expect_told(try_with(function, number, kInvalidValue), StatusCode::kInternal,
                  "hipErrorInvalidValue");
      if (HasFailure()) return;
    }
  }
  for (int64_t number = 1; number <= calls("hipGraphInstantiate"); ++number) {
    const Outcome outcome = try_with("hipGraphInstantiate", number, kOutOfMemory);
    ASSERT_EQ(outcome.skipped.size(), 1U) << outcome.status.to_string();
    EXPECT_EQ(outcome.skipped[0].reason, Reason::kOutOfMemory);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  }
  expect_recovered();
}

// Launches, copies, marks: the call's own failure, and one that loses the device.
TEST_F(RocmFaultTest, Enqueueing) {
  for (const char* function : {"hipLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync",
                               "hipGraphLaunch", "rocblas_gemm_ex", "hipEventRecord"}) {
    for (const int64_t number : some_of(calls(function), 8)) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(number));
      const bool rocblas = function == std::string_view("rocblas_gemm_ex");
      expect_told(try_with(function, number, kInvalidValue), StatusCode::kInternal,
                  rocblas ? "rocblas_status_internal_error" : "hipErrorInvalidValue");
      if (!rocblas) {
        expect_lost(try_with(function, number, kLaunchFailure), "hipErrorLaunchFailure");
      }
      if (HasFailure()) return;
    }
  }
  expect_recovered();
}

// A kernel or copy that fails when it runs, long after it was enqueued.
TEST_F(RocmFaultTest, OperationThatLosesTheDevice) {
  for (const int64_t number : some_of(calls("operation"), 24)) {
    SCOPED_TRACE(number);
    expect_lost(try_with("operation", number, kIllegalAddress), "hipErrorIllegalAddress");
    if (HasFailure()) return;
  }
  expect_recovered();
}

// Whatever else it calls: told, or of no consequence.
TEST_F(RocmFaultTest, EveryOtherFunctionTellsOrDoesWithout) {
  for (const auto& [function, count] : calls_of_a_try) {
    for (const int64_t number : some_of(count, 4)) {
      SCOPED_TRACE(function + " " + std::to_string(number));
      const Outcome outcome = try_with(function, number, kInvalidValue);
      if (outcome.status.ok() && outcome.skipped.empty()) {
        EXPECT_EQ(outcome.logits, clean_outcome.logits);
      } else if (outcome.skipped.empty()) {
        EXPECT_THAT(outcome.status.code(),
                    AnyOf(Eq(StatusCode::kInternal), Eq(StatusCode::kUnavailable)));
        EXPECT_THAT(outcome.status.message(),
                    ContainsRegex("hipErrorInvalidValue|invalid argument|rocblas_status"));
      }
      if (HasFailure()) return;
    }
  }
  expect_recovered();
}

}  // namespace
}  // namespace encore::rocm
