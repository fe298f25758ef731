#include "equality_rig.h"

#include <algorithm>
#include <array>
#include <utility>

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 40;

// Logits after one token each, with nothing before it, for as many requests as a step may hold and
// for one.
Result<LogitError> error_without_history(Subject& subject) {
  const ReferenceModel reference = subject.reference();
  LogitError error;
  for (const int32_t count : {1, 8}) {
    std::vector<Request> requests;
    std::vector<Work> work;
    requests.reserve(static_cast<size_t>(count));
    work.reserve(requests.capacity());
    for (const int32_t token : random_tokens(5, count, subject.vocab_size())) {
      requests.push_back(make_request({token}));
    }
    for (Request& request : requests) work.push_back({&request, 1});
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, subject.driver->run(subject.eager(), work));
    for (size_t row = 0; row < requests.size(); ++row) {
      error.add(logit_error(result.logits.at(row), reference.last_logits(requests[row].tokens)));
      subject.driver->finish(requests[row]);
    }
  }
  return error;
}

bool takes(const EqualityRun& run, const RandomModel& random) {
  return run.session.backend()
      .check_model(run.session.device(), random.spec, random.weights->weights())
      .ok();
}

template <typename Expected>
Status check_error(std::span<const float> found, std::span<const Expected> expected,
                   const ErrorLimit& limit, const std::string& what) {
  const LogitError error = logit_error(found, expected);
  if (limit.holds(error)) return {};
  return broken(what + ": " + describe(error, limit));
}

}  // namespace

Status broken(std::string message) { return internal_error(std::move(message)); }

Status not_judged(std::string message) { return unimplemented(std::move(message)); }

Outcome run_equality(const CheckContext& context, EqualityBody body) {
  PluginSession session(context);
  if (!session.ok()) return session.outcome();
  return outcome_of(body({context, session}));
}

int32_t repetitions(const EqualityRun& run, int32_t full) {
  return run.context.quick ? std::max(full / 10, 1) : full;
}

RandomModel model_for(const EqualityRun& run, Family family, uint64_t seed,
                      const ModelOverrides& overrides) {
  RandomModel first = random_model(family, seed, DType::kF32, overrides);
  if (takes(run, first)) return first;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    RandomModel other = random_model(family, seed, dtype, overrides);
    if (takes(run, other)) return other;
  }
  return first;
}

Result<std::unique_ptr<Subject>> load_subject(const EqualityRun& run, RandomModel random,
                                              RunnerSetOptions options) {
  const bool breakable = options.capture.prefill_mode == PrefillMode::kBreakable;
  options.prefill = options.prefill && run.session.has(breakable ? kCapabilityPrefillBreakable
                                                                 : kCapabilityPrefillFull);
  options.decode = options.decode && run.session.has(kCapabilityDecodeGraph);
  if (!run.session.has(kCapabilityEager)) {
    return not_judged("the device does not claim eager steps, which give the logits to compare");
  }
  auto subject = std::make_unique<Subject>();
  subject->random = std::move(random);
  ENCORE_ASSIGN_OR_RETURN(subject->model,
                          run.session.load(subject->random.spec, *subject->random.weights));
  ENCORE_ASSIGN_OR_RETURN(subject->runners, make_runner_set(*subject->model, options));
  subject->driver = std::make_unique<StepDriver>(subject->vocab_size(), *subject->runners.kv);
  return subject;
}

Result<std::unique_ptr<Subject>> make_subject(const EqualityRun& run, RandomModel random,
                                              RunnerSetOptions options) {
  ENCORE_ASSIGN_OR_RETURN(auto subject, load_subject(run, std::move(random), std::move(options)));
  ENCORE_ASSIGN_OR_RETURN(subject->limit, measure_limit(*subject));
  return subject;
}

Result<ErrorLimit> measure_limit(Subject& subject) {
  ENCORE_ASSIGN_OR_RETURN(const LogitError error, error_without_history(subject));
  const auto head = find_weight(*subject.random.weights, "layers.0.q.weight");
  const DType dtype = subject.random.weights->weights()[static_cast<size_t>(head)].dtype;
  return limit_of(error, is_quantised(dtype));
}

std::vector<NamedRunner> runners_of(Subject& subject) {
  std::vector<NamedRunner> runners;
  const auto add = [&](const std::optional<RunnerCapture>& capture, const char* name) {
    if (capture.has_value()) runners.push_back({name, capture->runner.get()});
  };
  add(subject.runners.eager, "eager");
  add(subject.runners.prefill, "prefill graph");
  add(subject.runners.decode, "decode graph");
  return runners;
}

Status same_logits(std::span<const float> found, std::span<const float> expected,
                   const ErrorLimit& limit, const std::string& what) {
  return check_error(found, expected, limit, what);
}

Status same_logits(std::span<const float> found, std::span<const double> expected,
                   const ErrorLimit& limit, const std::string& what) {
  return check_error(found, expected, limit, what);
}

Status same_greedy_token(int32_t found, int32_t expected, std::span<const double> logits,
                         const ErrorLimit& limit, const std::string& what) {
  if (found == expected) return {};
  const bool in_range = found >= 0 && static_cast<size_t>(found) < logits.size();
  const double best = *std::max_element(logits.begin(), logits.end());
  // Each of the two logits may be off by the limit.
  const double slack = 2.0 * limit.max * spread_of(logits);
  if (in_range && best - logits[static_cast<size_t>(found)] <= slack) return {};
  return broken(what + ": the token is " + std::to_string(found) + ", expected " +
                std::to_string(expected) + ", which leads by more than rounding explains");
}

Result<std::vector<float>> run_to(Subject& subject, Runner& runner, Request& request, int32_t end) {
  const std::array<Work, 1> work = {{{&request, end - request.cached}}};
  ENCORE_ASSIGN_OR_RETURN(StepResult result, subject.driver->run(runner, work));
  return std::move(result.logits.at(0));
}

Result<StepResult> run_step(Subject& subject, Runner& runner, std::span<const Work> work,
                            StepOptions options) {
  ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, subject.driver->batch_of(work, options));
  OwnedOutput output(batch.logit_rows.size(), subject.vocab_size(), options);
  const RunnerCheck check = runner.check(batch.view(), output.view());
  if (check.reason == Reason::kLogitsRequested) options.whole_logits = false;
  return subject.driver->run(runner, work, options);
}

Status needs_right_logits(Subject& subject) {
  Request request = make_request(random_tokens(6, kPromptLength, subject.vocab_size()));
  ENCORE_ASSIGN_OR_RETURN(const std::vector<float> logits,
                          run_to(subject, subject.eager(), request, kPromptLength));
  const std::vector<double> expected = subject.reference().last_logits(request.tokens);
  subject.driver->finish(request);
  const Status right = same_logits(logits, expected, subject.limit, "eager");
  return right.ok() ? right : not_judged("the logits themselves are wrong: see R01");
}

}  // namespace encore::check
