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

// The same step by both runners, each on fresh pages.
Status check_step(Subject& subject, Runner& runner, const std::vector<Shape>& shapes,
                  const std::string& what) {
  std::vector<StepResult> results;
  for (Runner* one : {&runner, &subject.eager()}) {
    ENCORE_ASSIGN_OR_RETURN(std::vector<Request> requests, prepare(subject, shapes));
    std::vector<Work> work;
    for (size_t i = 0; i < shapes.size(); ++i) work.push_back({&requests[i], shapes[i].count});
    ENCORE_ASSIGN_OR_RETURN(results.emplace_back(), run_step(subject, *one, work));
    for (Request& request : requests) subject.driver->finish(request);
  }
  for (size_t row = 0; row < shapes.size(); ++row) {
    const std::string where = what + ", row " + std::to_string(row) + " of " +
                              std::to_string(shapes.size()) + " against the eager runner";
    ENCORE_RETURN_IF_ERROR(
        same_logits(results[0].logits.at(row), results[1].logits.at(row), subject.limit, where));
    const std::vector<double> logits = widened(results[1].logits[row]);
    ENCORE_RETURN_IF_ERROR(same_greedy_token(results[0].tokens[row], results[1].tokens[row], logits,
                                             subject.limit, where));
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
