#include "sampled_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace encore::check {
namespace {

constexpr int32_t kPromptLength = 12;
constexpr int32_t kLengthStep = 5;  // rows of different prompts differ in length too

}  // namespace

Result<SampledRows> SampledRows::create(Subject& subject, int32_t num_rows, Prompts prompts) {
  SampledRows rows(subject);
  for (int32_t row = 0; row < num_rows; ++row) {
    const int32_t index = prompts == Prompts::kOne ? 0 : row;
    const int32_t length = kPromptLength + kLengthStep * index;
    const uint64_t seed = 80 + static_cast<uint64_t>(index);
    Request& request = rows.requests_.emplace_back(
        make_request(random_tokens(seed, length, subject.vocab_size())));
    const Work work{&request, length - 1, false};
    ENCORE_RETURN_IF_ERROR(subject.driver->run(subject.eager(), {&work, 1}).status());
  }
  return rows;
}

Result<StepResult> SampledRows::run(Runner& runner, std::span<const size_t> order,
                                    StepOptions options) {
  std::vector<Work> work;
  for (const size_t row : order) work.push_back({&requests_[row], 1});
  const auto enter_again = [&] {
    for (const size_t row : order) --requests_[row].cached;
  };
  ENCORE_ASSIGN_OR_RETURN(StepResult result, run_step(*subject_, runner, work, options));
  enter_again();
  if (!result.logits.empty()) return result;
  options.whole_logits = true;
  ENCORE_ASSIGN_OR_RETURN(StepResult eager,
                          subject_->driver->run(subject_->eager(), work, options));
  enter_again();
  result.logits = std::move(eager.logits);
  return result;
}

Result<StepResult> SampledRows::run(Runner& runner, const StepOptions& options) {
  std::vector<size_t> order(requests_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return run(runner, order, options);
}

Result<std::unique_ptr<Subject>> sampling_subject(const EqualityRun& run) {
  RunnerSetOptions options = small_options();
  options.prefill = true;
  options.decode = true;
  if (!run.session.has(kCapabilityPrefillFull)) {
    options.capture.prefill_mode = PrefillMode::kBreakable;
  }
  return make_subject(run, model_for(run, Family::kLlama), options);
}

}  // namespace encore::check
