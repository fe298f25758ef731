// Rules G on capture: in any order, later, again, beside another, and with a bucket that fails.
#include <algorithm>
#include <string>
#include <utility>

#include "graph_rule_bodies.h"

namespace encore::check {
namespace {

// A few steps by both graphs, of several sizes.
Status run_steps(MirroredSteps& steps, Runner& prefill, Runner& decode, const std::string& what) {
  std::vector<size_t> requests;
  std::vector<MirroredSteps::Item> items;
  for (const int32_t cached : {0, 20, 37}) {
    ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), steps.add(cached + 40, cached));
    items.push_back({requests.back(), 7});
    ENCORE_RETURN_IF_ERROR(steps.step(
        prefill, items, what + ", prefill of " + std::to_string(items.size()) + " requests"));
  }
  for (const size_t count : {1, 2, 3}) {
    const auto live = std::span(items).first(count);
    for (MirroredSteps::Item& item : live) item.count = 1;
    ENCORE_RETURN_IF_ERROR(
        steps.step(decode, live, what + ", decode of " + std::to_string(count) + " requests"));
  }
  for (const size_t request : requests) steps.finish(request);
  return {};
}

Result<RunnerCheck> ask_decodes(MirroredSteps& steps, const Rig& rig, Runner& runner,
                                int32_t count) {
  std::vector<Request> requests = make_requests(rig, count, 1);
  ENCORE_ASSIGN_OR_RETURN(const OwnedBatch batch, steps.driver().batch_of(work_for(requests, 1)));
  OwnedOutput output(batch.logit_rows.size(), rig.vocab_size(), {});
  const RunnerCheck check = runner.check(batch.view(), output.view());
  if (!check.ok() && runner.submit(batch.view(), output.view()).ok()) {
    return violation("the check refuses " + std::to_string(count) +
                     " decodes, but submit takes them");
  }
  for (Request& request : requests) steps.driver().finish(request);
  return check;
}

// Which bucket a step takes that can run has a rule of its own.
Status expect_check(const RunnerCheck& check, Reason reason, int32_t bucket,
                    const std::string& what) {
  const bool right_bucket = reason == Reason::kNone || check.bucket == bucket;
  if (check.reason == reason && right_bucket) return {};
  return violation(what + ": the check answers " + std::string(reason_name(check.reason)) +
                   ", bucket " + std::to_string(check.bucket) + "; expected " +
                   std::string(reason_name(reason)) + ", bucket " + std::to_string(bucket));
}

Status expect_reasons(const CaptureReport& report, int32_t failed, Reason reason,
                      const std::string& what) {
  bool listed = false;
  for (const BucketReport& bucket : report.buckets) {
    const bool is_failed = bucket.bucket == failed;
    listed |= is_failed;
    const Reason expected = is_failed ? reason : Reason::kNone;
    if (bucket.reason != expected) {
      return violation(what + ": bucket " + std::to_string(bucket.bucket) + " is reported as " +
                       std::string(reason_name(bucket.reason)) + ", expected " +
                       std::string(reason_name(expected)));
    }
    if (expected != Reason::kNone && bucket.message.empty()) {
      return violation(what + ": the report says nothing about why the bucket failed");
    }
  }
  if (listed) return {};
  return violation(what + ": bucket " + std::to_string(failed) + " is missing in the report");
}

// Captures each bucket of a lazy runner, smallest first.
Status capture_all(Runner& runner, std::span<const int32_t> buckets) {
  for (const int32_t bucket : buckets) {
    ENCORE_ASSIGN_OR_RETURN(const CaptureReport report, runner.capture_bucket(bucket));
    const bool this_one = report.buckets.size() == 1 && report.buckets[0].bucket == bucket &&
                          report.buckets[0].reason == Reason::kNone;
    if (!this_one) {
      return violation("capturing bucket " + std::to_string(bucket) +
                       " later does not report that bucket, and it alone, as captured");
    }
  }
  return {};
}

Status expect_lazy_report(const CaptureReport& report) {
  const bool none_captured =
      std::all_of(report.buckets.begin(), report.buckets.end(),
                  [](const BucketReport& bucket) { return bucket.reason == Reason::kNotCaptured; });
  if (none_captured && !report.buckets.empty()) return {};
  return violation("a lazy capture does not report each bucket as not_captured");
}

}  // namespace

Status failed_bucket_costs_that_bucket(Rig& rig) {
  const RunnerSetOptions options = graph_options();
  for (const Reason reason : {Reason::kCaptureFailed, Reason::kOutOfMemory}) {
    const std::string what = "bucket 4 made to fail with " + std::string(reason_name(reason));
    ENCORE_RETURN_IF_ERROR(rig.model->fail_capture(4, reason));
    Result<std::unique_ptr<MirroredSteps>> created = MirroredSteps::create(rig, options);
    ENCORE_RETURN_IF_ERROR(rig.model->fail_capture(4, Reason::kNone));
    if (!created.ok()) return violation(what + ": no runner: " + created.status().to_string());
    MirroredSteps& steps = **created;
    ENCORE_RETURN_IF_ERROR(expect_reasons(steps.graphs().decode->report, 4, reason, what));
    Runner& decode = steps.decode_runner();
    std::vector<size_t> counts = {1, 2, 8, 9};
    for (const auto& [count, bucket] : {std::pair{1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {9, 12}}) {
      ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check, ask_decodes(steps, rig, decode, count));
      if (bucket == 4 && check.ok()) {
        ENCORE_RETURN_IF_ERROR(expect_check(check, Reason::kNone, 8, what));
        counts.push_back(static_cast<size_t>(count));
        continue;
      }
      ENCORE_RETURN_IF_ERROR(
          expect_check(check, bucket == 4 ? Reason::kNotCaptured : Reason::kNone, bucket, what));
    }
    std::vector<size_t> requests;
    for (int32_t i = 0; i < 9; ++i) {
      ENCORE_ASSIGN_OR_RETURN(requests.emplace_back(), steps.add(30, 3 * i));
    }
    for (const size_t count : counts) {
      ENCORE_RETURN_IF_ERROR(steps.decode(std::span(requests).first(count),
                                          what + ", decode of " + std::to_string(count)));
    }
  }
  ENCORE_ASSIGN_OR_RETURN(const RunnerSet set, make_runner_set(*rig.model, options));
  return expect_reasons(set.decode->report, 4, Reason::kNone, "the fault is over");
}

Status capture_order_does_not_matter(Rig& rig) {
  for (const bool decode_first : {false, true}) {
    RunnerSetOptions options = graph_options();
    options.decode_first = decode_first;
    ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
    ENCORE_RETURN_IF_ERROR(
        run_steps(*steps, steps->prefill(), steps->decode_runner(),
                  decode_first ? "decode captured first" : "prefill captured first"));
  }
  return {};
}

Status lazy_capture_equals_eager_capture(Rig& rig) {
  RunnerSetOptions options = graph_options();
  options.capture.lazy = true;
  const std::vector<int32_t>& decode_buckets = options.capture.decode_buckets;
  const std::vector<int32_t>& prefill_buckets = options.capture.prefill_buckets;
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
  Runner& decode = steps->decode_runner();
  Runner& prefill = steps->prefill();
  // Before anything else: a plugin that captures nothing later says so here.
  ENCORE_RETURN_IF_ERROR(capture_all(decode, std::span(decode_buckets).subspan(1, 1)));
  ENCORE_RETURN_IF_ERROR(expect_lazy_report(steps->graphs().decode->report));
  ENCORE_RETURN_IF_ERROR(expect_lazy_report(steps->graphs().prefill->report));
  for (const int32_t bucket : decode_buckets) {
    ENCORE_ASSIGN_OR_RETURN(const RunnerCheck check, ask_decodes(*steps, rig, decode, bucket));
    ENCORE_RETURN_IF_ERROR(expect_check(check, bucket == 2 ? Reason::kNone : Reason::kNotCaptured,
                                        bucket, "only bucket 2 was captured"));
  }
  ENCORE_RETURN_IF_ERROR(capture_all(decode, std::span(decode_buckets).first(1)));
  ENCORE_RETURN_IF_ERROR(capture_all(decode, std::span(decode_buckets).subspan(2)));
  ENCORE_RETURN_IF_ERROR(capture_all(prefill, prefill_buckets));
  const StatusCode again = decode.capture_bucket(4).status().code();
  if (again != StatusCode::kFailedPrecondition) {
    return violation("capturing bucket 4 a second time gives " +
                     std::string(status_code_name(again)) + ", expected failed_precondition");
  }
  const StatusCode unknown = decode.capture_bucket(5).status().code();
  if (unknown != StatusCode::kNotFound) {
    return violation("capturing bucket 5, which there is not, gives " +
                     std::string(status_code_name(unknown)) + ", expected not_found");
  }
  return run_steps(*steps, prefill, decode, "captured later");
}

Status runners_captured_side_by_side(Rig& rig) {
  const RunnerSetOptions options = graph_options();
  ENCORE_ASSIGN_OR_RETURN(const auto steps, MirroredSteps::create(rig, options));
  Runner& prefill = steps->prefill();
  Runner& decode = steps->decode_runner();
  KvCache& kv = *steps->graphs().kv;
  {
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture second_prefill,
                            rig.model->capture_prefill(kv, options.capture));
    ENCORE_ASSIGN_OR_RETURN(RunnerCapture second_decode,
                            rig.model->capture_decode(kv, options.capture));
    for (int32_t round = 0; round < 2; ++round) {
      ENCORE_RETURN_IF_ERROR(run_steps(*steps, prefill, decode, "the first of two runners"));
      ENCORE_RETURN_IF_ERROR(run_steps(*steps, *second_prefill.runner, *second_decode.runner,
                                       "the second of two runners"));
    }
    ENCORE_RETURN_IF_ERROR(
        run_steps(*steps, prefill, *second_decode.runner, "one of each of two runners"));
  }
  return run_steps(*steps, prefill, decode, "once the second runner is freed");
}

}  // namespace encore::check
