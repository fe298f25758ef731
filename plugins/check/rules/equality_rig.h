// What the rules on equality start from: a random model on the plugin, its runners, and the
// reference beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/status.h"
#include "logit_error.h"
#include "plugin_session.h"
#include "random_model.h"
#include "reference_model.h"
#include "rule.h"
#include "runner_set.h"
#include "step_driver.h"

namespace encore::check {

// A rule's body: ok if the plugin keeps the rule; kUnimplemented if it cannot be judged, because
// the plugin does not offer what it is about or breaks a rule on which this one builds; any other
// error if the plugin breaks the rule.
struct EqualityRun {
  const CheckContext& context;
  PluginSession& session;
};
using EqualityBody = Status (*)(const EqualityRun& run);
Outcome run_equality(const CheckContext& context, EqualityBody body);

template <EqualityBody kBody>
Outcome equality(const CheckContext& context) {
  return run_equality(context, kBody);
}

// What a rule found that should not be so; and why it cannot be judged.
Status broken(std::string message);
Status not_judged(std::string message);

// `full` repetitions, or a tenth of them, at least 1.
int32_t repetitions(const EqualityRun& run, int32_t full);

// A family's small model with weights of the first type that the plugin takes: f32, bf16, f16.
RandomModel model_for(const EqualityRun& run, Family family, uint64_t seed = 1,
                      const ModelOverrides& overrides = {});

// A model that the plugin has loaded, with runners. Members go in reverse order.
struct Subject {
  RandomModel random;
  std::unique_ptr<Model> model;
  RunnerSet runners;
  std::unique_ptr<StepDriver> driver;
  ErrorLimit limit;  // of the plugin's arithmetic for this model: see measure_limit()

  int64_t vocab_size() const { return random.spec.vocab_size; }
  Runner& eager() { return *runners.eager->runner; }
  ReferenceModel reference() const { return {random.spec, *random.weights}; }
};

// Loads the model and makes the eager runner, and those others of `options` that the device claims;
// the second also measures the limit.
Result<std::unique_ptr<Subject>> load_subject(const EqualityRun& run, RandomModel random,
                                              RunnerSetOptions options);
Result<std::unique_ptr<Subject>> make_subject(const EqualityRun& run, RandomModel random,
                                              RunnerSetOptions options);

// The finest limit that holds for steps of one token without history. It is the device's
// arithmetic, and all its other results are held to it.
Result<ErrorLimit> measure_limit(Subject& subject);

// The runners that the subject has, with names for messages.
struct NamedRunner {
  std::string name;
  Runner* runner = nullptr;
};
std::vector<NamedRunner> runners_of(Subject& subject);

// Errors: broken() naming the row and `what` if the row is further off than `limit`.
Status same_logits(std::span<const float> found, std::span<const float> expected,
                   const ErrorLimit& limit, const std::string& what);
Status same_logits(std::span<const float> found, std::span<const double> expected,
                   const ErrorLimit& limit, const std::string& what);

// Equal, or so near the leading logit of `expected` that rounding may decide.
Status same_greedy_token(int32_t found, int32_t expected, std::span<const double> logits,
                         const ErrorLimit& limit, const std::string& what);

// Runs `request` for its tokens up to `end` in one step of `runner`; the row's logits.
Result<std::vector<float>> run_to(Subject& subject, Runner& runner, Request& request, int32_t end);

// As StepDriver::run(), but a runner that gives no logits (kLogitsRequested) is asked for none.
Result<StepResult> run_step(Subject& subject, Runner& runner, std::span<const Work> work,
                            StepOptions options = {});

// Ok if whole prompts in one eager step give the reference's logits, as R01 asks; not_judged()
// otherwise. For rules that build on it.
Status needs_right_logits(Subject& subject);

}  // namespace encore::check
