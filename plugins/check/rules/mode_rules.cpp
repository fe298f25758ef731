// Rules R on graphs: each mode against the eager runner, over all families. Bucket edges, padding
// and what a replay leaves behind are the business of the rules G.
#include <string>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kLength = 60;

struct Shape {
  int32_t cached = 0;
  int32_t count = 1;
};

Result<std::vector<Request>> prepare(Subject& subject, const std::vector<Shape>& shapes) {
  std::vector<Request> requests;
  for (const Shape& shape : shapes) {
    const uint64_t seed = 70 + requests.size();
    Request& request =
        requests.emplace_back(make_request(random_tokens(seed, kLength, subject.vocab_size())));
    if (shape.cached == 0) continue;
    const Work work{&request, shape.cached, false};
    ENCORE_RETURN_IF_ERROR(subject.driver->run(subject.eager(), {&work, 1}).status());
  }
  return requests;
}

// The shapes' requests in one step of `runner`, or eagerly one by one.
Result<StepResult> run_shapes(Subject& subject, Runner& runner, const std::vector<Shape>& shapes) {
  ENCORE_ASSIGN_OR_RETURN(std::vector<Request> requests, prepare(subject, shapes));
  std::vector<Work> work;
  for (size_t i = 0; i < shapes.size(); ++i) work.push_back({&requests[i], shapes[i].count});
  const size_t at_once = runner.kind() == RunnerKind::kEager ? 1 : work.size();
  StepResult all;
  for (size_t first = 0; first < work.size(); first += at_once) {
    ENCORE_ASSIGN_OR_RETURN(const StepResult step,
                            run_step(subject, runner, std::span(work).subspan(first, at_once)));
    all.tokens.insert(all.tokens.end(), step.tokens.begin(), step.tokens.end());
    all.logits.insert(all.logits.end(), step.logits.begin(), step.logits.end());
  }
  for (Request& request : requests) subject.driver->finish(request);
  return all;
}

// The same requests by both runners, each time on fresh pages.
Status check_step(Subject& subject, Runner& runner, const std::vector<Shape>& shapes,
                  const std::string& what) {
  ENCORE_ASSIGN_OR_RETURN(const StepResult found, run_shapes(subject, runner, shapes));
  ENCORE_ASSIGN_OR_RETURN(const StepResult expected, run_shapes(subject, subject.eager(), shapes));
  for (size_t row = 0; row < shapes.size(); ++row) {
    const std::string where = what + ", row " + std::to_string(row) + " of " +
                              std::to_string(shapes.size()) + " against the eager runner";
    if (!found.logits.empty()) {
      ENCORE_RETURN_IF_ERROR(
          same_logits(found.logits[row], expected.logits.at(row), subject.limit, where));
    }
    ENCORE_RETURN_IF_ERROR(same_greedy_token(found.tokens[row], expected.tokens[row],
                                             widened(expected.logits.at(row)), subject.limit,
                                             where));
  }
  return {};
}

Status check_prefill(const EqualityRun& run, PrefillMode mode, const std::string& name) {
  for (const Family family : kFamilies) {
    RunnerSetOptions options = small_options();
    options.capture.prefill_mode = mode;
    options.prefill = true;
    ENCORE_ASSIGN_OR_RETURN(const auto subject, make_subject(run, model_for(run, family), options));
    if (!subject->runners.prefill.has_value()) {
      return not_judged("the device does not claim the " + name);
    }
    const std::string what = std::string(family_name(family)) + ", " + name;
    const std::vector<std::vector<Shape>> steps = {
        {{0, 32}},
        {{0, 21}},
        {{23, 9}},
        {{0, 12}, {20, 1}, {33, 14}, {5, 1}},
    };
    for (const std::vector<Shape>& shapes : steps) {
      ENCORE_RETURN_IF_ERROR(check_step(*subject, *subject->runners.prefill->runner, shapes, what));
    }
  }
  return {};
}

}  // namespace

Status full_prefill_equals_eager(const EqualityRun& run) {
  return check_prefill(run, PrefillMode::kFull, "full prefill graph");
}

Status breakable_prefill_equals_eager(const EqualityRun& run) {
  return check_prefill(run, PrefillMode::kBreakable, "breakable prefill graph");
}

Status decode_graph_equals_eager(const EqualityRun& run) {
  for (const Family family : kFamilies) {
    RunnerSetOptions options = small_options();
    options.decode = true;
    ENCORE_ASSIGN_OR_RETURN(const auto subject, make_subject(run, model_for(run, family), options));
    if (!subject->runners.decode.has_value()) {
      return not_judged("the device does not claim decode graphs");
    }
    const std::string what = std::string(family_name(family)) + ", decode graph";
    const std::vector<std::vector<Shape>> steps = {
        {{17, 1}},
        {{31, 1}, {4, 1}, {48, 1}},
        {{40, 1}, {16, 1}, {15, 1}, {2, 1}, {33, 1}, {9, 1}, {58, 1}, {0, 1}},
    };
    for (const std::vector<Shape>& shapes : steps) {
      ENCORE_RETURN_IF_ERROR(check_step(*subject, *subject->runners.decode->runner, shapes, what));
    }
  }
  return {};
}

}  // namespace encore::check
