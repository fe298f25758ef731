// Rows of logits to sample from again and again: requests whose prompts are cached, each of which
// enters the same last token at every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "encore/status.h"
#include "equality_rig.h"

namespace encore::check {

class SampledRows {
 public:
  enum class Prompts { kOne, kDifferent };

  // REQUIRES: the rows fit a step of `subject`, which must outlive this.
  static Result<SampledRows> create(Subject& subject, int32_t num_rows, Prompts prompts);

  // To set sampling, biases and history on.
  Request& operator[](size_t row) { return requests_[row]; }
  size_t size() const { return requests_.size(); }

  // One step of the given rows, in that order, or of all. `logits` of the result is always there:
  // the eager runner's if `runner` gives none.
  Result<StepResult> run(Runner& runner, std::span<const size_t> order, StepOptions options = {});
  Result<StepResult> run(Runner& runner, const StepOptions& options = {});

 private:
  explicit SampledRows(Subject& subject) : subject_(&subject) {}

  Subject* subject_;
  std::vector<Request> requests_;
};

// Runs `body` with each runner of the subject; its errors name the runner.
template <typename Body>
Status with_each_runner(Subject& subject, const Body& body) {
  for (const NamedRunner& named : runners_of(subject)) {
    const Status status = body(*named.runner);
    if (!status.ok()) return {status.code(), named.name + ": " + status.message()};
  }
  return {};
}

// A random Llama with all the runners that the device claims.
Result<std::unique_ptr<Subject>> sampling_subject(const EqualityRun& run);

}  // namespace encore::check
