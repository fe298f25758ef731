// Rules R on tokens that the host has not seen: a negative id in one step is what a row of the step
// before sampled.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"
#include "sampled_rows.h"

namespace encore::check {
namespace {

constexpr int32_t kRows = 5;
constexpr int32_t kPromptLength = 9;

// Requests whose prompts have just been entered by one step, and the tokens which that sampled.
struct Prefilled {
  std::vector<Request> requests;
  std::vector<int32_t> sampled;
};

Result<Prefilled> prefill(Subject& subject, Runner& runner) {
  Prefilled prefilled;
  std::vector<Work> work;
  for (uint64_t row = 0; row < kRows; ++row) {
    prefilled.requests.push_back(
        make_request(random_tokens(110 + row, kPromptLength, subject.vocab_size())));
  }
  for (Request& request : prefilled.requests) work.push_back({&request, kPromptLength});
  ENCORE_ASSIGN_OR_RETURN(const StepResult result, run_step(subject, runner, work));
  prefilled.sampled = result.tokens;
  return prefilled;
}

// Request `row` goes on with the token of row `row + 1`, so that a mix-up of rows shows.
size_t source_of(size_t row) { return (row + 1) % kRows; }

Result<StepResult> go_on(Subject& subject, Runner& runner, std::vector<Request>& requests) {
  std::vector<Work> work;
  work.reserve(requests.size());
  for (Request& request : requests) work.push_back({&request, 1});
  Result<StepResult> result = run_step(subject, runner, work);
  for (Request& request : requests) subject.driver->finish(request);
  return result;
}

// The two steps with ids known to the host, and again with negative ones.
struct BothWays {
  StepResult known;
  StepResult pending;
};

// `prepare` sets what else a request of the second step asks for; it is told the token to come.
template <typename Prepare>
Result<BothWays> run_both(Subject& subject, Runner& first, Runner& second, const Prepare& prepare) {
  BothWays both;
  for (const bool pending : {false, true}) {
    ENCORE_ASSIGN_OR_RETURN(Prefilled prefilled, prefill(subject, first));
    for (size_t row = 0; row < kRows; ++row) {
      Request& request = prefilled.requests[row];
      const int32_t token = prefilled.sampled[source_of(row)];
      const auto reference = -1 - static_cast<int32_t>(source_of(row));
      request.tokens.push_back(pending ? reference : token);
      prepare(request, token, pending);
    }
    ENCORE_ASSIGN_OR_RETURN((pending ? both.pending : both.known),
                            go_on(subject, second, prefilled.requests));
  }
  return both;
}

// Pairs of runners for a step and the one after.
template <typename Body>
Status with_runner_pairs(Subject& subject, const Body& body) {
  const std::vector<NamedRunner> runners = runners_of(subject);
  for (const NamedRunner& first : runners) {
    if (first.runner->kind() == RunnerKind::kDecodeGraph) continue;  // takes no prompts
    for (const NamedRunner& second : runners) {
      const Status status = body(*first.runner, *second.runner);
      if (status.ok()) continue;
      return {status.code(), first.name + ", then " + second.name + ": " + status.message()};
    }
  }
  return {};
}

bool same_rows(const BothWays& both, size_t row, const ErrorLimit& limit) {
  if (both.known.logits.empty() || both.pending.logits.empty()) {
    return both.known.tokens[row] == both.pending.tokens[row];
  }
  return limit.holds(logit_error(std::span<const float>(both.pending.logits[row]),
                                 std::span<const float>(both.known.logits[row])));
}

}  // namespace

Status negative_ids_are_sampled_tokens(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  return with_runner_pairs(*subject, [&](Runner& first, Runner& second) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const BothWays both,
                            run_both(*subject, first, second, [](Request&, int32_t, bool) {}));
    for (size_t row = 0; row < kRows; ++row) {
      if (same_rows(both, row, subject->limit)) continue;
      return broken("row " + std::to_string(row) + " with token id " +
                    std::to_string(-1 - static_cast<int32_t>(source_of(row))) +
                    " differs from the same row with the token that this stands for");
    }
    return {};
  });
}

Status pending_tokens_count_as_history(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  // The penalty is so high that the pending token decides: it leads by its bias otherwise.
  const auto prepare = [](Request& request, int32_t token, bool pending) {
    request.sampling.presence_penalty = 80.0F;
    request.biases = {{token, 60.0F}};
    request.history = {{(token + 1) % 100, 1, 0}};
    if (!pending) request.history.push_back({token, 0, 1});
  };
  return with_runner_pairs(*subject, [&](Runner& first, Runner& second) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const BothWays both, run_both(*subject, first, second, prepare));
    for (size_t row = 0; row < kRows; ++row) {
      const bool judged = both.known.logits.empty() || same_rows(both, row, subject->limit);
      if (!judged) return not_judged("negative ids give other logits: see R24");
      if (both.known.tokens[row] == both.pending.tokens[row]) continue;
      return broken("row " + std::to_string(row) + ": token " +
                    std::to_string(both.pending.tokens[row]) + ", expected " +
                    std::to_string(both.known.tokens[row]) +
                    "; the row's own input, still unseen by the host, counts for penalties");
    }
    return {};
  });
}

}  // namespace encore::check
