// The rule R on layer observers: which layers they see, in which order, and what.
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 11;  // no bucket's size, so that padding would show

struct Seen {
  int32_t layer = 0;
  int32_t num_tokens = 0;
  int32_t hidden_size = 0;
  std::vector<float> hidden;
};

LayerObserver recorder(std::vector<Seen>& seen) {
  return [&seen](const LayerOutput& output) {
    const size_t count =
        static_cast<size_t>(output.num_tokens) * static_cast<size_t>(output.hidden_size);
    seen.push_back({output.layer, output.num_tokens, output.hidden_size,
                    std::vector<float>(output.hidden, output.hidden + count)});
  };
}

Status check_seen(const Subject& subject, const std::vector<Seen>& seen,
                  std::span<const int32_t> tokens) {
  const ModelSpec& spec = subject.random.spec;
  const std::vector<int32_t> rows = {0};
  const ReferencePass expected = subject.reference().forward(tokens, rows);
  if (seen.size() != expected.layer_outputs.size()) {
    return broken("the observer was called " + std::to_string(seen.size()) + " times for " +
                  std::to_string(spec.num_layers) + " layers");
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    const Seen& one = seen[i];
    const bool right_shape = one.layer == static_cast<int32_t>(i) &&
                             one.num_tokens == static_cast<int32_t>(tokens.size()) &&
                             one.hidden_size == static_cast<int32_t>(spec.hidden_size);
    if (!right_shape) {
      return broken("call " + std::to_string(i) + " of the observer is for layer " +
                    std::to_string(one.layer) + " with " + std::to_string(one.num_tokens) +
                    " tokens of " + std::to_string(one.hidden_size) + "; the step has " +
                    std::to_string(tokens.size()) + " of " + std::to_string(spec.hidden_size));
    }
    ENCORE_RETURN_IF_ERROR(same_logits(one.hidden, expected.layer_outputs[i], subject.limit,
                                       "the output of layer " + std::to_string(i)));
  }
  return {};
}

Status check_runner(Subject& subject, Runner& runner, std::vector<Seen>& seen) {
  Request request = make_request(random_tokens(140, kPromptLength, subject.vocab_size()));
  seen.clear();
  const Work work{&request, kPromptLength};
  ENCORE_RETURN_IF_ERROR(run_step(subject, runner, {&work, 1}).status());
  subject.driver->finish(request);
  return check_seen(subject, seen, request.tokens);
}

// A runner without breaks must say that it cannot be observed.
Status check_refusal(Subject& subject, Runner& runner) {
  Request request = make_request(random_tokens(141, 1, subject.vocab_size()));
  const Work work{&request, 1};
  ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, subject.driver->batch_of({&work, 1}));
  OwnedOutput output(batch.logit_rows.size(), subject.vocab_size(), {});
  const Reason reason = runner.check(batch.view(), output.view()).reason;
  subject.driver->finish(request);
  if (reason == Reason::kObserved) return {};
  return broken("with an observer set, a decode graph answers " + std::string(reason_name(reason)) +
                "; it must answer observed");
}

Status check_observers(Subject& subject, std::vector<Seen>& seen) {
  const Status eager = check_runner(subject, subject.eager(), seen);
  if (!eager.ok()) return {eager.code(), "eager: " + eager.message()};
  if (subject.runners.prefill.has_value()) {
    const Status prefill = check_runner(subject, *subject.runners.prefill->runner, seen);
    if (!prefill.ok()) return {prefill.code(), "breakable prefill graph: " + prefill.message()};
  }
  if (subject.runners.decode.has_value()) {
    ENCORE_RETURN_IF_ERROR(check_refusal(subject, *subject.runners.decode->runner));
  }
  ENCORE_RETURN_IF_ERROR(subject.model->set_layer_observer({}));
  seen.clear();
  Request request = make_request(random_tokens(142, kPromptLength, subject.vocab_size()));
  ENCORE_RETURN_IF_ERROR(run_to(subject, subject.eager(), request, kPromptLength).status());
  if (seen.empty()) return {};
  return broken("the observer was called after it had been removed");
}

}  // namespace

Status observers_see_layers(const EqualityRun& run) {
  std::vector<Seen> seen;
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_for(run, Family::kMistral), small_options()));
  ENCORE_RETURN_IF_ERROR(needs_right_logits(*subject));
  ENCORE_RETURN_IF_ERROR(subject->model->set_layer_observer(recorder(seen)));
  // Graphs captured now have breaks for the observer.
  RunnerSetOptions options = small_options();
  options.capture.prefill_mode = PrefillMode::kBreakable;
  const auto capture = [&](uint64_t capability, std::optional<RunnerCapture>& target,
                           auto member) -> Status {
    if (!run.session.has(capability)) return {};
    Model& model = *subject->model;
    ENCORE_ASSIGN_OR_RETURN(target, (model.*member)(*subject->runners.kv, options.capture));
    return {};
  };
  ENCORE_RETURN_IF_ERROR(
      capture(kCapabilityPrefillBreakable, subject->runners.prefill, &Model::capture_prefill));
  ENCORE_RETURN_IF_ERROR(
      capture(kCapabilityDecodeGraph, subject->runners.decode, &Model::capture_decode));
  return check_observers(*subject, seen);
}

}  // namespace encore::check
