// Rules R on how tokens and requests share steps. Each compares the eager runner with itself.
#include <algorithm>
#include <string>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kLength = 60;

// A request's state before a step: `cached` tokens are in the cache, `count` are to come.
struct Shape {
  int32_t cached = 0;
  int32_t count = 1;
};

// Prefill chunks and decodes, with and without a prefix, at and around the edges of pages.
constexpr Shape kShapes[] = {{0, 30}, {20, 1}, {13, 7}, {47, 1}, {0, 1}, {16, 3}, {31, 1}};

Result<Request> prepare(Subject& subject, size_t index) {
  const Shape& shape = kShapes[index];
  Request request = make_request(random_tokens(60 + index, kLength, subject.vocab_size()));
  if (shape.cached > 0) {
    const Work work{&request, shape.cached, false};
    ENCORE_RETURN_IF_ERROR(subject.driver->run(subject.eager(), {&work, 1}).status());
  }
  return request;
}

// One step with the shapes in the given order; their rows in that order.
Result<StepResult> run_together(Subject& subject, const std::vector<size_t>& order) {
  std::vector<Request> requests;
  std::vector<Work> work;
  for (const size_t index : order) {
    ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), prepare(subject, index));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    work.push_back({&requests[i], kShapes[order[i]].count});
  }
  Result<StepResult> result = subject.driver->run(subject.eager(), work);
  for (Request& request : requests) subject.driver->finish(request);
  return result;
}

}  // namespace

Status cuts_do_not_matter(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_for(run, Family::kLlama), small_options()));
  const auto tokens = random_tokens(50, kLength, subject->vocab_size());
  const auto logits_of = [&](int32_t first, int32_t chunk) -> Result<std::vector<float>> {
    Request request = make_request(tokens);
    std::vector<float> logits;
    for (int32_t end = first; request.cached < kLength; end = std::min(end + chunk, kLength)) {
      ENCORE_ASSIGN_OR_RETURN(logits, run_to(*subject, subject->eager(), request, end));
    }
    subject->driver->finish(request);
    return logits;
  };
  ENCORE_ASSIGN_OR_RETURN(const std::vector<float> whole, logits_of(kLength, kLength));
  for (const int32_t chunk : {1, 7, 16, 31}) {
    ENCORE_ASSIGN_OR_RETURN(const std::vector<float> found, logits_of(chunk, chunk));
    ENCORE_RETURN_IF_ERROR(same_logits(found, whole, subject->limit,
                                       "a prompt of " + std::to_string(kLength) + " in steps of " +
                                           std::to_string(chunk) + " against one step"));
  }
  for (const int32_t prefix : {1, 15, 16, 17, 32, 33, kLength - 1}) {
    ENCORE_ASSIGN_OR_RETURN(const std::vector<float> found, logits_of(prefix, kLength));
    ENCORE_RETURN_IF_ERROR(same_logits(found, whole, subject->limit,
                                       "a prompt of " + std::to_string(kLength) + " with " +
                                           std::to_string(prefix) +
                                           " tokens cached before against one step"));
  }
  return {};
}

Status neighbours_do_not_matter(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_for(run, Family::kLlama), small_options()));
  std::vector<std::vector<float>> alone;
  std::vector<size_t> order;
  for (size_t i = 0; i < std::size(kShapes); ++i) {
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, run_together(*subject, {i}));
    alone.push_back(result.logits.at(0));
    order.push_back(i);
  }
  for (size_t turn = 0; turn < order.size(); ++turn) {
    for (size_t count = 2; count <= order.size(); ++count) {
      const std::vector<size_t> some(order.begin(),
                                     order.begin() + static_cast<std::ptrdiff_t>(count));
      ENCORE_ASSIGN_OR_RETURN(const StepResult result, run_together(*subject, some));
      for (size_t row = 0; row < some.size(); ++row) {
        const std::string what = "request " + std::to_string(some[row]) + " in row " +
                                 std::to_string(row) + " of " + std::to_string(count) +
                                 " against the same request alone";
        ENCORE_RETURN_IF_ERROR(
            same_logits(result.logits.at(row), alone[some[row]], subject->limit, what));
        const auto logits = widened(alone[some[row]]);
        ENCORE_RETURN_IF_ERROR(same_greedy_token(result.tokens[row], leader_of(logits).token,
                                                 logits, subject->limit, what));
      }
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  return {};
}

}  // namespace encore::check
