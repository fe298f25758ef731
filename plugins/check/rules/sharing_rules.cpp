// Rules R on pages that several requests share.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "equality_rule_bodies.h"

namespace encore::check {
namespace {

constexpr int32_t kPageSize = 16;  // small_options()
constexpr int32_t kNumShared = 2;
constexpr int32_t kSharedTokens = kNumShared * kPageSize;
constexpr int32_t kLength = 40;
constexpr size_t kNumRequests = 3;

// Requests that begin alike and end differently; others for each seed.
std::vector<Request> make_requests(const Subject& subject, uint64_t seed) {
  const auto common = random_tokens(seed, kSharedTokens, subject.vocab_size());
  std::vector<Request> requests;
  requests.reserve(kNumRequests);
  for (size_t i = 0; i < kNumRequests; ++i) {
    std::vector<int32_t> tokens = common;
    const auto own = random_tokens(seed + 1 + i, kLength - kSharedTokens, subject.vocab_size());
    tokens.insert(tokens.end(), own.begin(), own.end());
    requests.push_back(make_request(std::move(tokens)));
  }
  return requests;
}

// Where the requests that compute only their ends find what comes before.
enum class Prefix {
  kOwnPages,     // in pages of their own, filled by an earlier step
  kSharedPages,  // in the pages that request `filler` fills in the same step
};

// One step in which request `filler` computes its whole prompt, and the others what follows their
// common beginning.
Result<StepResult> run_step_of(Subject& subject, Runner& runner, uint64_t seed, size_t filler,
                               Prefix prefix) {
  std::vector<Request> requests = make_requests(subject, seed);
  std::vector<std::vector<int32_t>> own_pages;
  std::vector<Work> work;
  own_pages.reserve(kNumRequests);
  work.reserve(kNumRequests);
  for (Request& request : requests) {
    ENCORE_RETURN_IF_ERROR(subject.driver->reserve(request, kLength));
    own_pages.push_back(request.pages);
    work.push_back({&request, kLength});
  }
  for (size_t i = 0; i < kNumRequests; ++i) {
    if (i == filler) continue;
    if (prefix == Prefix::kOwnPages) {
      const Work earlier{&requests[i], kSharedTokens, false};
      ENCORE_RETURN_IF_ERROR(subject.driver->run(subject.eager(), {&earlier, 1}).status());
    } else {
      std::copy_n(own_pages[filler].begin(), kNumShared, requests[i].pages.begin());
      requests[i].cached = kSharedTokens;
    }
    work[i].count = kLength - kSharedTokens;
  }
  Result<StepResult> result = run_step(subject, runner, work);
  for (size_t i = 0; i < kNumRequests; ++i) {
    requests[i].pages = own_pages[i];
    subject.driver->finish(requests[i]);
  }
  return result;
}

// Each row against the same request alone, in an eager step.
Status check_rows(Subject& subject, const StepResult& found, uint64_t seed,
                  const std::string& what) {
  std::vector<Request> requests = make_requests(subject, seed);
  for (size_t row = 0; row < found.logits.size(); ++row) {
    ENCORE_ASSIGN_OR_RETURN(const std::vector<float> alone,
                            run_to(subject, subject.eager(), requests[row], kLength));
    subject.driver->finish(requests[row]);
    ENCORE_RETURN_IF_ERROR(
        same_logits(found.logits[row], alone, subject.limit,
                    what + ", request " + std::to_string(row) + " against the same request alone"));
  }
  return {};
}

Status check_sharing(Subject& subject, const NamedRunner& named, uint64_t seed, size_t filler) {
  // The requests alone come last: pages that were given back keep their content, which must not
  // help the step.
  ENCORE_ASSIGN_OR_RETURN(const StepResult shared,
                          run_step_of(subject, *named.runner, seed, filler, Prefix::kSharedPages));
  ENCORE_ASSIGN_OR_RETURN(const StepResult apart,
                          run_step_of(subject, *named.runner, seed, filler, Prefix::kOwnPages));
  const Status sound = check_rows(subject, apart, seed, named.name + ", nothing shared");
  if (!sound.ok()) return not_judged("the step is wrong without shared pages: " + sound.message());
  return check_rows(
      subject, shared, seed,
      named.name + ", request " + std::to_string(filler) + " fills the first two pages of all");
}

}  // namespace

Status pages_are_shared_at_once(const EqualityRun& run) {
  RunnerSetOptions options = small_options();
  options.prefill = true;
  ENCORE_ASSIGN_OR_RETURN(const auto subject,
                          make_subject(run, model_for(run, Family::kLlama), options));
  uint64_t seed = 310;
  for (const NamedRunner& named : runners_of(*subject)) {
    for (size_t filler = 0; filler < kNumRequests; ++filler, seed += 10) {
      ENCORE_RETURN_IF_ERROR(check_sharing(*subject, named, seed, filler));
    }
  }
  return {};
}

}  // namespace encore::check
