// Rules G on buckets: which there are, what is reported of them, and which batch takes which.
// Known fault G4 is a list of buckets that is wrong at its edges.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "graph_rule_bodies.h"

namespace encore::check {
namespace {

std::string text_of(std::span<const BucketReport> buckets) {
  std::string text = "{";
  for (const BucketReport& bucket : buckets) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(bucket.bucket);
  }
  return text + "}";
}

// `given` ascending; if it is empty the plugin chooses, but its largest bucket is `maximum`.
Status check_list(std::span<const BucketReport> buckets, std::span<const int32_t> given,
                  int32_t maximum, const std::string& what) {
  const auto larger = [](const BucketReport& a, const BucketReport& b) {
    return a.bucket > b.bucket;
  };
  const bool largest_first =
      std::is_sorted(buckets.begin(), buckets.end(), larger) &&
      std::adjacent_find(buckets.begin(), buckets.end(), std::not_fn(larger)) == buckets.end();
  if (!largest_first) {
    return violation(what + ": the report lists " + text_of(buckets) +
                     "; each bucket is listed once, the largest first");
  }
  if (buckets.empty() || buckets.front().bucket != maximum || buckets.back().bucket < 1) {
    return violation(what + ": the report lists " + text_of(buckets) +
                     "; buckets lie from 1 to the maximum, " + std::to_string(maximum) +
                     ", which is one of them");
  }
  const bool as_given =
      given.empty() ||
      std::equal(buckets.rbegin(), buckets.rend(), given.begin(), given.end(),
                 [](const BucketReport& report, int32_t size) { return report.bucket == size; });
  if (as_given) return {};
  return violation(what + ": the report lists " + text_of(buckets) + ", but " +
                   std::to_string(given.size()) + " other buckets were asked for");
}

RunnerSetOptions options_of(int32_t maximum, std::vector<int32_t> buckets) {
  RunnerSetOptions options = small_options();
  options.kv.num_pages = 4;
  options.capture.limits.max_requests = maximum;
  options.capture.limits.max_tokens = maximum;
  options.capture.decode_buckets = buckets;
  options.capture.prefill_buckets = std::move(buckets);
  return options;
}

Status check_bucket(const BucketReport& bucket, bool full, const std::string& what) {
  const std::string name = what + " bucket " + std::to_string(bucket.bucket);
  if (bucket.reason != Reason::kNone) {
    return violation(name + " was not captured: " + std::string(reason_name(bucket.reason)) + " (" +
                     bucket.message + ")");
  }
  const bool negative = bucket.arena_bytes < 0 || bucket.executable_bytes < 0 ||
                        bucket.workspace_bytes < 0 || bucket.capture_us < 0;
  if (negative) return violation(name + " reports a negative size or time");
  if (bucket.num_nodes < 1) {
    return violation(name + " reports " + std::to_string(bucket.num_nodes) +
                     " nodes; a replay makes one call at least");
  }
  if (bucket.num_segments < 1 || (full && bucket.num_segments != 1)) {
    return violation(name + " reports " + std::to_string(bucket.num_segments) + " launches" +
                     (full ? "; a whole graph is one" : ""));
  }
  return {};
}

Status check_report(const CaptureReport& report, bool full, const std::string& what) {
  int64_t executable_bytes = 0;
  int64_t capture_us = 0;
  for (const BucketReport& bucket : report.buckets) {
    ENCORE_RETURN_IF_ERROR(check_bucket(bucket, full, what));
    executable_bytes += bucket.executable_bytes;
    capture_us += bucket.capture_us;
  }
  const bool negative = report.arena_bytes < 0 || report.static_bytes < 0 ||
                        report.workspace_bytes < 0 || report.host_bytes < 0 ||
                        report.host_bytes > report.static_bytes;
  if (negative) return violation(what + ": the report's sums make no sense");
  // Shared executables count once in the sum, so it may be smaller.
  if (report.executable_bytes > executable_bytes) {
    return violation(what + ": the report's executable_bytes are " +
                     std::to_string(report.executable_bytes) + ", those of its buckets only " +
                     std::to_string(executable_bytes));
  }
  if (report.total_us + 1000 < capture_us) {
    return violation(what + ": the report's total_us is " + std::to_string(report.total_us) +
                     ", less than its buckets took: " + std::to_string(capture_us));
  }
  return {};
}

// Says what the runner answers to a step of that work.
Result<RunnerCheck> ask(StepDriver& driver, const Rig& rig, const Runner& runner,
                        std::span<const Work> work) {
  ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, driver.batch_of(work));
  OwnedOutput output(batch.logit_rows.size(), rig.vocab_size(), {});
  return runner.check(batch.view(), output.view());
}

Status expect_answer(const RunnerCheck& found, Reason reason, int32_t bucket,
                     const std::string& what) {
  if (found.reason == reason && found.bucket == bucket) return {};
  return violation(what + ": the check answers " + std::string(reason_name(found.reason)) +
                   ", bucket " + std::to_string(found.bucket) + "; expected " +
                   std::string(reason_name(reason)) + ", bucket " + std::to_string(bucket));
}

int32_t smallest_holding(std::span<const int32_t> buckets, int32_t size) {
  return *std::lower_bound(buckets.begin(), buckets.end(), size);
}

}  // namespace

Status buckets_are_those_asked_for(Rig& rig) {
  for (const int32_t maximum : {1, 2, 3, 8, 12, 20, 33}) {
    std::vector<int32_t> given = {1, maximum};
    if (maximum == 1) given = {1};
    for (const auto& buckets : {std::vector<int32_t>(), given}) {
      RunnerSetOptions options = options_of(maximum, buckets);
      options.prefill = true;
      options.decode = true;
      ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, options));
      const std::string most = " with at most " + std::to_string(maximum);
      ENCORE_RETURN_IF_ERROR(
          check_list(set.decode.value().report.buckets, buckets, maximum, "decode" + most));
      ENCORE_RETURN_IF_ERROR(
          check_list(set.prefill.value().report.buckets, buckets, maximum, "prefill" + most));
    }
  }
  return {};
}

Status capture_reports_add_up(Rig& rig) {
  for (const PrefillMode mode : {PrefillMode::kFull, PrefillMode::kBreakable}) {
    const bool full = mode == PrefillMode::kFull;
    if (!rig.session.has(full ? kCapabilityPrefillFull : kCapabilityPrefillBreakable)) continue;
    RunnerSetOptions options = graph_options();
    options.capture.prefill_mode = mode;
    ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, options));
    if (!set.eager.value().report.buckets.empty()) {
      return violation("the eager runner's report lists buckets");
    }
    ENCORE_RETURN_IF_ERROR(check_report(set.eager.value().report, false, "eager"));
    ENCORE_RETURN_IF_ERROR(check_report(set.prefill.value().report, full,
                                        full ? "full prefill" : "breakable prefill"));
    ENCORE_RETURN_IF_ERROR(check_report(set.decode.value().report, true, "decode"));
  }
  return {};
}

Status smallest_bucket_is_taken(Rig& rig) {
  const RunnerSetOptions options = graph_options();
  ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 12, 1);
  for (int32_t count = 1; count <= 12; ++count) {
    const auto live = std::span(requests).first(static_cast<size_t>(count));
    ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check,
                            ask(driver, rig, *set.decode.value().runner, work_for(live, 1)));
    const int32_t bucket = smallest_holding(options.capture.decode_buckets, count);
    ENCORE_RETURN_IF_ERROR(
        expect_answer(check, Reason::kNone, bucket, std::to_string(count) + " decodes"));
  }
  std::vector<Request> one = make_requests(rig, 1, 128);
  for (int32_t count = 1; count <= 128; ++count) {
    ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check,
                            ask(driver, rig, *set.prefill.value().runner, work_for(one, count)));
    const int32_t bucket = smallest_holding(options.capture.prefill_buckets, count);
    ENCORE_RETURN_IF_ERROR(
        expect_answer(check, Reason::kNone, bucket, "a prompt of " + std::to_string(count)));
  }
  return {};
}

Status what_no_bucket_holds_is_refused(Rig& rig) {
  const RunnerSetOptions options = graph_options();
  ENCORE_ASSIGN_OR_RETURN(RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> many = make_requests(rig, 13, 2);
  std::vector<Request> one = make_requests(rig, 1, 321);
  struct Case {
    std::string what;
    Runner* runner;
    std::vector<Work> work;
    Reason reason;
    int32_t cached = 0;  // of the one request
  };
  Runner* const prefill = set.prefill.value().runner.get();
  Runner* const decode = set.decode.value().runner.get();
  const std::vector<Case> cases = {
      {"a prompt of 129 with room for 128", prefill, {{one.data(), 129}}, Reason::kTooManyTokens},
      {"13 decodes with room for 12", decode, work_for(many, 1), Reason::kTooManyRequests},
      {"two tokens of one request in a decode step", decode, work_for({many.data(), 1}, 2),
       Reason::kNotDecode},
      {"token 321 of at most 320", decode, {{one.data(), 1}}, Reason::kContextTooLong, 320},
  };
  for (const Case& refused : cases) {
    one[0].cached = refused.cached;
    ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check,
                            ask(driver, rig, *refused.runner, refused.work));
    ENCORE_RETURN_IF_ERROR(expect_answer(check, refused.reason, 0, refused.what));
    ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, driver.batch_of(refused.work));
    OwnedOutput output(batch.logit_rows.size(), rig.vocab_size(), {});
    if (refused.runner->submit(batch.view(), output.view()).ok()) {
      return violation(refused.what + ": the check refuses the step, but submit takes it");
    }
  }
  // The runners are as good as before.
  const std::vector<Work> decodes = work_for(std::span(many).first(12), 1);
  ENCORE_RETURN_IF_ERROR(driver.run(*decode, decodes).status());
  driver.finish(one[0]);
  return driver.run(*prefill, work_for(one, 128)).status();
}

Status without_padding_sizes_are_exact(Rig& rig) {
  RunnerSetOptions options = graph_options();
  options.capture.padding = false;
  ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, options));
  StepDriver driver(rig.vocab_size(), *set.kv);
  std::vector<Request> requests = make_requests(rig, 12, 1);
  const auto expect = [&](const Runner& runner, std::span<const Work> work, int32_t size,
                          std::span<const int32_t> buckets) -> Status {
    ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check, ask(driver, rig, runner, work));
    const bool exact = std::binary_search(buckets.begin(), buckets.end(), size);
    return expect_answer(check, exact ? Reason::kNone : Reason::kNoExactBucket, exact ? size : 0,
                         "size " + std::to_string(size) + " without padding");
  };
  for (int32_t count = 1; count <= 12; ++count) {
    const auto live = std::span(requests).first(static_cast<size_t>(count));
    ENCORE_RETURN_IF_ERROR(expect(*set.decode.value().runner, work_for(live, 1), count,
                                  options.capture.decode_buckets));
  }
  std::vector<Request> one = make_requests(rig, 1, 128);
  for (const int32_t count : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128}) {
    ENCORE_RETURN_IF_ERROR(expect(*set.prefill.value().runner, work_for(one, count), count,
                                  options.capture.prefill_buckets));
  }
  return {};
}

}  // namespace encore::check
