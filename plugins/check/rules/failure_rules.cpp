// Rules R on rows that get no token. Known fault S2: a row of NaN must not become text, and must
// harm no other row.
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"
#include "sampled_rows.h"

namespace encore::check {
namespace {

constexpr int32_t kRows = 4;
constexpr size_t kFailingRow = 2;
constexpr int32_t kPoisonedToken = 7;
constexpr int32_t kPromptLength = 14;

Result<std::unique_ptr<Subject>> poisoned_subject(const EqualityRun& run) {
  RandomModel random = model_for(run, Family::kLlama);
  poison_embedding(random, kPoisonedToken);
  RunnerSetOptions options = small_options();
  options.prefill = true;
  options.decode = true;
  if (!run.session.has(kCapabilityPrefillFull)) {
    options.capture.prefill_mode = PrefillMode::kBreakable;
  }
  return make_subject(run, std::move(random), options);
}

// A prompt without the poisoned token.
std::vector<int32_t> clean_prompt(uint64_t seed, int64_t vocab_size) {
  std::vector<int32_t> tokens = random_tokens(seed, kPromptLength, vocab_size);
  for (int32_t& token : tokens) token += token == kPoisonedToken ? 1 : 0;
  return tokens;
}

// kRows prompts, all but the last token cached; the failing row's last one is poisoned if asked.
Result<StepResult> run_prompts(Subject& subject, Runner& runner, bool poisoned) {
  std::vector<Request> requests;
  std::vector<Work> work;
  for (uint64_t row = 0; row < kRows; ++row) {
    Request& request =
        requests.emplace_back(make_request(clean_prompt(120 + row, subject.vocab_size())));
    request.sampling.temperature = row % 2 == 1 ? 1.0F : 0.0F;
    request.sampling.seed = row;
    const Work cached{&request, kPromptLength - 1, false};
    ENCORE_RETURN_IF_ERROR(subject.driver->run(subject.eager(), {&cached, 1}).status());
  }
  if (poisoned) requests[kFailingRow].tokens.back() = kPoisonedToken;
  work.reserve(requests.size());
  for (Request& request : requests) work.push_back({&request, 1});
  Result<StepResult> result = run_step(subject, runner, work);
  for (Request& request : requests) subject.driver->finish(request);
  return result;
}

Status check_failed_row(const StepResult& result, size_t row, RowStatus expected,
                        const std::string& what) {
  const auto status = static_cast<int32_t>(expected);
  if (result.row_status[row] == status && result.tokens[row] == -1) return {};
  return broken(what + " ends with status " + std::to_string(result.row_status[row]) +
                " and token " + std::to_string(result.tokens[row]) + "; expected " +
                std::to_string(status) + " and -1");
}

// The other rows are what they were without the failing one.
Status check_others(const StepResult& found, const StepResult& clean, const ErrorLimit& limit) {
  for (size_t row = 0; row < kRows; ++row) {
    if (row == kFailingRow) continue;
    const std::string what =
        "row " + std::to_string(row) + " beside the failing one against the same without it";
    if (!found.logits.empty()) {
      ENCORE_RETURN_IF_ERROR(same_logits(found.logits[row], clean.logits.at(row), limit, what));
    }
    const bool same_token = found.tokens[row] == clean.tokens[row] || !found.logits.empty();
    if (found.row_status[row] == 0 && same_token) continue;
    return broken(what + ": token " + std::to_string(found.tokens[row]) + ", status " +
                  std::to_string(found.row_status[row]) + "; expected " +
                  std::to_string(clean.tokens[row]) + " and 0");
  }
  return {};
}

}  // namespace

Status nan_row_fails_alone(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, poisoned_subject(run));
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const StepResult clean, run_prompts(*subject, runner, false));
    ENCORE_ASSIGN_OR_RETURN(const StepResult found, run_prompts(*subject, runner, true));
    ENCORE_RETURN_IF_ERROR(
        check_failed_row(found, kFailingRow, RowStatus::kNonFinite, "a row of NaN logits"));
    return check_others(found, clean, subject->limit);
  });
}

Status nan_leaves_nothing_behind(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, poisoned_subject(run));
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const StepResult before, run_prompts(*subject, runner, false));
    // Every page that the cache has is filled with keys and values of NaN, and given back.
    Request poisoned = make_request({});
    const KvInfo kv = subject->runners.kv->info();
    poisoned.tokens.assign(static_cast<size_t>(kv.page_size), kPoisonedToken);
    std::vector<Request> all(static_cast<size_t>(subject->driver->num_free_pages()), poisoned);
    for (Request& request : all) {
      const Work work{&request, kv.page_size};
      ENCORE_RETURN_IF_ERROR(run_step(*subject, subject->eager(), {&work, 1}).status());
    }
    for (Request& request : all) subject->driver->finish(request);
    ENCORE_ASSIGN_OR_RETURN(const StepResult after, run_prompts(*subject, runner, false));
    for (size_t row = 0; row < kRows; ++row) {
      const std::string what =
          "row " + std::to_string(row) + " on pages that held NaN against the same before";
      if (after.row_status[row] != 0) {
        return broken(what + ": status " + std::to_string(after.row_status[row]));
      }
      if (after.logits.empty()) continue;
      ENCORE_RETURN_IF_ERROR(
          same_logits(after.logits[row], before.logits.at(row), subject->limit, what));
    }
    return {};
  });
}

Status banned_row_fails_alone(const EqualityRun& run) {
  ENCORE_ASSIGN_OR_RETURN(const auto subject, sampling_subject(run));
  ENCORE_ASSIGN_OR_RETURN(SampledRows rows,
                          SampledRows::create(*subject, kRows, SampledRows::Prompts::kDifferent));
  return with_each_runner(*subject, [&](Runner& runner) -> Status {
    rows[kFailingRow].biases.clear();
    ENCORE_ASSIGN_OR_RETURN(const StepResult clean, rows.run(runner));
    for (int32_t token = 0; token < static_cast<int32_t>(subject->vocab_size()); ++token) {
      rows[kFailingRow].biases.push_back({token, -std::numeric_limits<float>::infinity()});
    }
    for (const float temperature : {0.0F, 1.0F}) {
      rows[kFailingRow].sampling.temperature = temperature;
      ENCORE_ASSIGN_OR_RETURN(const StepResult found, rows.run(runner));
      // A plugin that ignores biases breaks the rule about them, which is then told from this one.
      const bool ignored = found.row_status[kFailingRow] == 0 && found.tokens[kFailingRow] >= 0 &&
                           temperature == 0.0F &&
                           found.tokens[kFailingRow] == clean.tokens[kFailingRow];
      if (ignored) return not_judged("biases have no effect: see R21");
      ENCORE_RETURN_IF_ERROR(check_failed_row(found, kFailingRow, RowStatus::kNoCandidate,
                                              "a row whose tokens are all banned"));
      ENCORE_RETURN_IF_ERROR(check_others(found, clean, subject->limit));
    }
    rows[kFailingRow].sampling.temperature = 0.0F;
    return {};
  });
}

}  // namespace encore::check
