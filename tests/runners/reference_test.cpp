// Logits and greedy tokens of a model against its float32 reference, in every mode.
//
//   encore_reference_test --model=DIR --reference=FILE.json [--plugin=PATH] [--option=key=value]...
//                         [--kv-dtype=bf16] [--max-error=X]
//
// Fails if the largest or the root-mean-square logit error is above 1.5 times that of transformers'
// own bf16 run (rounding differs by the order of sums; half as much again is room for that and not
// for a defect), or if a greedy token differs where the reference's two best logits are further
// apart than two such errors. --max-error states the largest error where the file has no bf16 run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "plugin_under_test.h"
#include "reference_file.h"
#include "step_driver.h"
#include "test_model.h"

namespace encore::testing {
namespace {

constexpr double kErrorRatio = 1.5;

struct ReferenceArguments {
  std::string model;
  std::string reference;
  DType kv_dtype = DType::kBF16;
  double max_error = 0.0;
};

ReferenceArguments& reference_arguments() {
  static ReferenceArguments arguments;
  return arguments;
}

const Reference& reference() {
  static const Reference loaded = read_reference(reference_arguments().reference);
  return loaded;
}

// Two logits that are this close may come in either order.
double allowed_gap() {
  const double stated = reference_arguments().max_error;
  return 2.0 * (stated > 0.0 ? stated : reference().bf16.max());
}

RunnersOptions options_for(PrefillMode mode) {
  RunnersOptions options = small_options();
  options.kv_dtype = reference_arguments().kv_dtype;
  options.graphs.capture.prefill_mode = mode;
  RunnerLimits& limits = options.graphs.capture.limits;
  const auto num_cases = static_cast<int32_t>(reference().cases.size());
  limits.max_requests = std::max(limits.max_requests, num_cases);
  limits.max_tokens = 0;
  options.num_pages = 0;
  for (const ReferenceCase& one : reference().cases) {
    const auto length = static_cast<int32_t>(one.tokens.size());
    limits.max_tokens += one.prompt_length;  // all prompts fit one step
    limits.max_context = std::max(limits.max_context, length);
    options.num_pages += (length + options.page_size - 1) / options.page_size;
  }
  limits.max_tokens = std::max(limits.max_tokens, limits.max_requests);
  options.graphs.capture.prefill_buckets = {16, 64, 256};
  return options;
}

// Feeds the reference's own tokens, so that a tie costs one token and not the rest of the case.
class Comparison {
 public:
  Comparison(std::string name, Runner& prefill, Runner& decode, StepDriver& driver)
      : name_(std::move(name)), prefill_(prefill), decode_(decode), driver_(driver) {}

  // One request: its prompt in chunks that end at the rows, so that later ones find a prefix.
  void run_alone(const ReferenceCase& one) {
    Sequence sequence = driver_.start(one.tokens);
    for (const auto& [position, row] : one.rows) {
      if (position < one.prompt_length - 1) run_to(one, sequence, position + 1);
    }
    run_to(one, sequence, one.prompt_length);
    for (int32_t step = 1; step < one.num_greedy(); ++step) {
      compare(one, sequence, driver_.run(decode_, {{&sequence, 1}}), 0);
    }
    driver_.finish(sequence);
  }

  // All requests: their prompts in one step, then decode steps of all that are not done.
  void run_together(const std::vector<ReferenceCase>& cases) {
    std::vector<Sequence> sequences;
    sequences.reserve(cases.size());
    for (const ReferenceCase& one : cases) sequences.push_back(driver_.start(one.tokens));
    for (int32_t step = 0;; ++step) {
      std::vector<Work> work;
      std::vector<size_t> live;
      for (size_t i = 0; i < cases.size(); ++i) {
        if (step >= cases[i].num_greedy()) continue;
        work.push_back({&sequences[i], step == 0 ? cases[i].prompt_length : 1});
        live.push_back(i);
      }
      if (work.empty()) break;
      const StepResult result = driver_.run(step == 0 ? prefill_ : decode_, work);
      for (size_t row = 0; row < live.size(); ++row) {
        compare(cases[live[row]], sequences[live[row]], result, row);
      }
    }
    for (Sequence& sequence : sequences) driver_.finish(sequence);
  }

  void check() const {
    std::printf("%-20s %5d %9.5f %9.5f %9.5f %9.5f %7d %5d %9.5f %6d\n", name_.c_str(), num_rows_,
                error_.max(), bf16_.max(), error_.rms(), bf16_.rms(), equal_, ties_, widest_tie_,
                wrong_);
    EXPECT_GT(num_rows_, 0);
    EXPECT_EQ(wrong_, 0) << name_;
    if (reference_arguments().max_error > 0.0) {
      EXPECT_LE(error_.max(), reference_arguments().max_error) << name_;
      return;
    }
    EXPECT_LE(error_.max(), kErrorRatio * bf16_.max()) << name_;
    EXPECT_LE(error_.rms(), kErrorRatio * bf16_.rms()) << name_;
  }

 private:
  void run_to(const ReferenceCase& one, Sequence& sequence, int32_t end) {
    compare(one, sequence, driver_.run(prefill_, {{&sequence, end - sequence.cached}}), 0);
  }

  // The row holds what follows the sequence's last cached token.
  void compare(const ReferenceCase& one, const Sequence& sequence, const StepResult& result,
               size_t row) {
    ASSERT_LT(row, result.logits.size()) << "the step did not run";
    const int32_t position = sequence.cached - 1;
    if (const auto expected = one.rows.find(position); expected != one.rows.end()) {
      ASSERT_EQ(result.logits[row].size(), expected->second.logits.size());
      error_.add(result.logits[row], expected->second.logits);
      bf16_.add(expected->second.bf16);
      ++num_rows_;
    }
    if (position >= one.prompt_length - 1) compare_token(one, position, result.tokens[row]);
  }

  void compare_token(const ReferenceCase& one, int32_t position, int32_t token) {
    if (token == one.tokens[position + 1]) {
      ++equal_;
      return;
    }
    const int32_t step = position + 1 - one.prompt_length;
    const double gap = one.gaps[step];
    if (gap <= allowed_gap()) {
      ++ties_;
      widest_tie_ = std::max(widest_tie_, gap);
      return;
    }
    ++wrong_;
    std::printf("  %s, case %s, step %d: token %d, reference %d, gap %.5f\n", name_.c_str(),
                one.name.c_str(), step, token, one.tokens[position + 1], gap);
  }

  std::string name_;
  Runner& prefill_;
  Runner& decode_;
  StepDriver& driver_;
  LogitError error_;
  LogitError bf16_;  // of the same rows
  int32_t num_rows_ = 0;
  int32_t equal_ = 0;
  int32_t ties_ = 0;
  double widest_tie_ = 0.0;
  int32_t wrong_ = 0;
};

void compare_mode(const std::string& name, PrefillMode mode) {
  TestModel& model = test_model(reference_arguments().model);
  const Runners runners = make_runners(model, options_for(mode));
  const GraphsCapture& graphs = runners.graphs;
  ASSERT_EQ(graphs.prefill.mode, mode);
  ASSERT_NE(graphs.decode.runner, nullptr);
  Runner& decode = mode == PrefillMode::kOff ? *graphs.eager.runner : *graphs.decode.runner;
  StepDriver driver(model.spec(), *runners.kv);
  Comparison alone(name + ", alone", *graphs.prefill.runner, decode, driver);
  for (const ReferenceCase& one : reference().cases) alone.run_alone(one);
  alone.check();
  Comparison together(name + ", together", *graphs.prefill.runner, decode, driver);
  together.run_together(reference().cases);
  together.check();
}

// Prompts by each kind of prefill; what follows by decode graphs, eagerly in the first.
TEST(Reference, Eager) { compare_mode("eager", PrefillMode::kOff); }
TEST(Reference, FullPrefillAndDecodeGraph) { compare_mode("full", PrefillMode::kFull); }
TEST(Reference, BreakablePrefillAndDecodeGraph) {
  compare_mode("breakable", PrefillMode::kBreakable);
}

bool parse_reference_argument(const char* argument) {
  ReferenceArguments& arguments = reference_arguments();
  if (const char* model = value_of(argument, "--model=")) {
    arguments.model = model;
  } else if (const char* path = value_of(argument, "--reference=")) {
    arguments.reference = path;
  } else if (const char* dtype = value_of(argument, "--kv-dtype=")) {
    arguments.kv_dtype = dtype_from_name(dtype);
  } else if (const char* error = value_of(argument, "--max-error=")) {
    arguments.max_error = std::strtod(error, nullptr);
  } else {
    return false;
  }
  return true;
}

void print_head() {
  std::printf("reference: %s\ntokens may differ up to a gap of %.5f\n", reference().text.c_str(),
              allowed_gap());
  std::printf("%-20s %5s %9s %9s %9s %9s %7s %5s %9s %6s\n", "", "rows", "max error", "(bf16)",
              "rms error", "(bf16)", "equal", "ties", "widest", "wrong");
}

int run(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (parse_reference_argument(argv[i]) || parse_plugin_argument(argv[i])) continue;
    std::fprintf(stderr, "unknown argument %s\n", argv[i]);
    return 2;
  }
  const ReferenceArguments& arguments = reference_arguments();
  if (arguments.model.empty() || arguments.reference.empty()) {
    std::fprintf(stderr, "--model=DIR and --reference=FILE.json are needed\n");
    return 2;
  }
  if (reference().bf16.count() == 0 && arguments.max_error <= 0.0) {
    std::fprintf(stderr, "the reference has no bf16 errors: --max-error=X must state the limit\n");
    return 2;
  }
  print_head();
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace encore::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    return encore::testing::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
