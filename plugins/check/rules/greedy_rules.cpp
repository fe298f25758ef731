// Rules R on greedy sampling.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"
#include "sampled_rows.h"

namespace encore::check {
namespace {

constexpr int32_t kRows = 6;
constexpr int32_t kTextLength = 24;

std::string row_name(size_t row) { return "row " + std::to_string(row); }

Status check_highest(const StepResult& result, const std::string& what) {
  for (size_t row = 0; row < result.tokens.size(); ++row) {
    const int32_t expected = leader_of(widened(result.logits.at(row))).token;
    if (result.row_status[row] == 0 && result.tokens[row] == expected) continue;
    return broken(what + row_name(row) + ": token " + std::to_string(result.tokens[row]) +
                  ", status " + std::to_string(result.row_status[row]) + "; the highest logit is " +
                  "that of " + std::to_string(expected));
  }
  return {};
}

// A model whose head has each row twice, so that every highest logit comes twice.
RandomModel model_of_twins(const EqualityRun& run) {
  RandomModel random = model_for(run, Family::kLlama);
  std::vector<float> head = random.weights->values("head.weight");
  const auto half = static_cast<std::ptrdiff_t>(head.size() / 2);
  std::copy(head.begin(), head.begin() + half, head.begin() + half);
  random.weights->set_values("head.weight", head);
  return random;
}

Status check_twins(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_of_twins(run), small_options()));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(subject->eager()));
  return check_highest(result, "equal logits, ");
}

// The reference's text, token by token; where rounding may decide, its token is fed all the same.
Status check_text(Subject& subject, Runner& prefill, Runner& decode) {
  const ReferenceModel reference = subject.reference();
  Request request = make_request(random_tokens(90, 20, subject.vocab_size()));
  const double spread_limit = 2.0 * subject.limit.max;
  for (int32_t step = 0; step < kTextLength; ++step) {
    const auto length = static_cast<int32_t>(request.tokens.size());
    const std::array<Work, 1> work = {{{&request, length - request.cached}}};
    ENCORE_ASSIGN_OR_RETURN(const StepResult result,
                            run_step(subject, step == 0 ? prefill : decode, work));
    const std::vector<double> expected = reference.last_logits(request.tokens);
    if (!result.logits.empty() &&
        !subject.limit.holds(logit_error(std::span<const float>(result.logits[0]), expected))) {
      return not_judged("the logits themselves are wrong: see R01, R09, R11 and R13");
    }
    const Leader leader = leader_of(expected);
    if (result.tokens[0] != leader.token && leader.gap > spread_limit) {
      return broken("token " + std::to_string(step) + " of the text is " +
                    std::to_string(result.tokens[0]) + "; the reference's is " +
                    std::to_string(leader.token) + ", which leads by more than rounding explains");
    }
    request.tokens.push_back(leader.token);
  }
  subject.driver->finish(request);
  return {};
}

}  // namespace

Status greedy_takes_the_highest(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  ENCORE_RETURN_IF_ERROR(with_each_runner(*subject, [&](Runner& runner) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
    return check_highest(result, "");
  }));
  return check_twins(run);
}

Status greedy_text_equals_reference(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_RETURN_IF_ERROR(check_text(*subject, subject->eager(), subject->eager()));
  const RunnerSet& runners = subject->runners;
  Runner& prefill = runners.prefill.has_value() ? *runners.prefill->runner : subject->eager();
  Runner& decode = runners.decode.has_value() ? *runners.decode->runner : subject->eager();
  return check_text(*subject, prefill, decode);
}

// Known fault S1.
Status no_temperature_is_too_small(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  std::vector<RowSampling> grid;
  for (const float temperature : {0.0F, 1e-30F, 1e-8F, 1e-4F, 2.0F, 1e30F}) {
    for (const float top_p : {1e-9F, 1.0F}) {
      for (const int32_t top_k : {-1, 0, 1, static_cast<int32_t>(subject->vocab_size()) + 5}) {
        for (const float min_p : {0.0F, 1.0F}) {
          RowSampling& sampling = grid.emplace_back();
          sampling.temperature = temperature;
          sampling.top_p = top_p;
          sampling.top_k = top_k;
          sampling.min_p = min_p;
          sampling.seed = grid.size();
        }
      }
    }
  }
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    for (size_t first = 0; first < grid.size(); first += kRows) {
      for (size_t row = 0; row < kRows; ++row) rows[row].sampling = grid[first + row];
      ENCORE_ASSIGN_OR_RETURN(const StepResult result, rows.run(runner));
      for (size_t row = 0; row < kRows; ++row) {
        const RowSampling& sampling = grid[first + row];
        // At 1e30 all logits are equal once they are divided.
        const bool one_left =
            sampling.temperature <= 1e-4F || (sampling.top_k == 1 && sampling.temperature < 1e3F);
        const int32_t highest = leader_of(widened(result.logits[row])).token;
        const int32_t token = result.tokens[row];
        const bool in_range = token >= 0 && token < subject->vocab_size();
        if (result.row_status[row] == 0 && in_range && (!one_left || token == highest)) continue;
        return broken("temperature " + std::to_string(sampling.temperature) + ", top_p " +
                      std::to_string(sampling.top_p) + ", top_k " + std::to_string(sampling.top_k) +
                      ", min_p " + std::to_string(sampling.min_p) + ": token " +
                      std::to_string(token) + ", status " + std::to_string(result.row_status[row]) +
                      (one_left ? "; the only candidate is " + std::to_string(highest)
                                : "; any token of the vocabulary is one"));
      }
    }
    return {};
  });
}

}  // namespace encore::check
