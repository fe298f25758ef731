#include "mode_selftest.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "encore/capture.h"
#include "text_table.h"
#include "tiny_model.h"
#include "tiny_steps.h"

namespace encore {
namespace {

// Weights outlive the model, the model its KV cache, the cache its runners.
struct TinyModel {
  ModelSpec spec = tiny_spec();
  TinyWeights weights{spec};
  std::unique_ptr<Model> model;
  std::unique_ptr<KvCache> kv;
  RunnerCapture eager;
};

CaptureOptions tiny_options() {
  CaptureOptions options;
  options.limits.max_requests = kTinyMaxRequests;
  options.limits.max_tokens = kTinyMaxTokens;
  options.limits.max_context = kTinyMaxTokens;
  options.prefill_buckets = {kTinyMaxTokens};
  options.decode_buckets = {kTinyMaxRequests};
  return options;
}

Status load(Backend& backend, int32_t device, int32_t ranks, TinyModel& tiny) {
  LoadOptions options;
  options.tensor_parallel_size = ranks;
  if (ranks > 1) options.tensor_parallel_rank = kAllRanks;
  ENCORE_RETURN_IF_ERROR(backend.check_model(device, tiny.spec, tiny.weights.weights()));
  ENCORE_ASSIGN_OR_RETURN(tiny.model, backend.load_model(device, tiny.spec, tiny.weights, options));
  KvOptions kv;
  kv.num_pages = kTinyPages;
  kv.page_size = kTinyPageSize;
  ENCORE_ASSIGN_OR_RETURN(tiny.kv, tiny.model->create_kv(kv));
  ENCORE_ASSIGN_OR_RETURN(tiny.eager, tiny.model->create_eager(*tiny.kv, tiny_options()));
  if (tiny.eager.runner == nullptr) return internal_error("the backend gives no eager runner");
  return {};
}

Status check_finite(const TinyResult& result) {
  for (const std::vector<float>& row : result.logits) {
    if (std::any_of(row.begin(), row.end(), [](float value) { return !std::isfinite(value); })) {
      return internal_error("a logit is not a finite number");
    }
  }
  return {};
}

struct Range {
  float least = 0.0F;
  float most = 0.0F;
  float width() const { return most - least; }
};

Range range_of(const std::vector<float>& row) {
  const auto [least, most] = std::minmax_element(row.begin(), row.end());
  return {*least, *most};
}

std::string percent(float share) {
  return format_number(100.0 * static_cast<double>(share), 2) + " %";
}

// A token is right if the reference found it (nearly) the most probable: ties may fall either way.
Result<float> difference(const TinyResult& found, const TinyResult& reference) {
  float largest = -1.0F;
  for (size_t row = 0; row < reference.logits.size(); ++row) {
    const std::vector<float>& expected = reference.logits[row];
    const Range range = range_of(expected);
    const int32_t token = found.tokens[row];
    if (token < 0 || static_cast<size_t>(token) >= expected.size()) {
      return internal_error("row " + std::to_string(row) + " sampled token " +
                            std::to_string(token) + " of a vocabulary of " +
                            std::to_string(expected.size()));
    }
    const float short_of = (range.most - expected[static_cast<size_t>(token)]) / range.width();
    if (!(short_of <= kModeTolerance)) {
      return internal_error("row " + std::to_string(row) + " sampled token " +
                            std::to_string(token) + ", whose eager logit is " + percent(short_of) +
                            " of the row's range below the greatest; the limit is " +
                            percent(kModeTolerance));
    }
    if (found.logits.empty()) continue;
    for (size_t i = 0; i < expected.size(); ++i) {
      const float share = std::fabs(found.logits[row][i] - expected[i]) / range.width();
      if (!(share <= kModeTolerance)) {
        return internal_error("row " + std::to_string(row) + ": a logit differs from eager by " +
                              percent(share) + " of the row's range; the limit is " +
                              percent(kModeTolerance));
      }
      largest = std::max(largest, share);
    }
  }
  return largest;
}

Status check_captured(const CaptureReport& report) {
  for (const BucketReport& bucket : report.buckets) {
    if (bucket.reason == Reason::kNone) continue;
    return failed_precondition("bucket " + std::to_string(bucket.bucket) +
                               " was not captured: " + std::string(reason_name(bucket.reason)) +
                               (bucket.message.empty() ? "" : ": " + bucket.message));
  }
  return {};
}

Result<float> compare_prefill(TinyModel& tiny, PrefillMode mode, int32_t first_page,
                              const TinyResult& reference) {
  CaptureOptions options = tiny_options();
  options.prefill_mode = mode;
  ENCORE_ASSIGN_OR_RETURN(const PrefillCapture prefill,
                          capture_prefill_graph(*tiny.model, *tiny.kv, options));
  ENCORE_RETURN_IF_ERROR(check_captured(prefill.report));
  ENCORE_ASSIGN_OR_RETURN(const TinyResult result,
                          run_tiny_steps(*prefill.runner, *tiny.eager.runner, first_page));
  return difference(result, reference);
}

Result<float> compare_decode(TinyModel& tiny, int32_t first_page, const TinyResult& reference) {
  ENCORE_ASSIGN_OR_RETURN(const DecodeCapture decode,
                          capture_decode_graph(*tiny.model, *tiny.kv, tiny_options()));
  ENCORE_RETURN_IF_ERROR(check_captured(decode.report));
  ENCORE_ASSIGN_OR_RETURN(const TinyResult result,
                          run_tiny_steps(*tiny.eager.runner, *decode.runner, first_page));
  return difference(result, reference);
}

Result<float> compare_ranks(Backend& backend, int32_t device, const TinyResult& reference) {
  TinyModel tiny;
  ENCORE_RETURN_IF_ERROR(load(backend, device, 2, tiny));
  ENCORE_ASSIGN_OR_RETURN(const TinyResult result,
                          run_tiny_steps(*tiny.eager.runner, *tiny.eager.runner, 0));
  return difference(result, reference);
}

Result<TinyResult> run_eager(TinyModel& tiny) {
  ENCORE_ASSIGN_OR_RETURN(TinyResult result,
                          run_tiny_steps(*tiny.eager.runner, *tiny.eager.runner, 0));
  if (result.logits.empty()) {
    return failed_precondition("the eager runner gives no logits, so nothing can be compared");
  }
  ENCORE_RETURN_IF_ERROR(check_finite(result));
  return result;
}

ModeTest outcome(std::string mode, const Result<float>& difference) {
  ModeTest test;
  test.mode = std::move(mode);
  test.state = difference.ok() ? ModeTest::State::kPassed : ModeTest::State::kFailed;
  if (!difference.ok()) {
    test.detail = difference.status().message();
  } else if (*difference < 0.0F) {
    test.detail = "tokens as eager; gives no logits to compare";
  } else {
    test.largest_difference = *difference;
    test.detail = "as eager, to " + percent(*difference) + " of the logits' range";
  }
  return test;
}

ModeTest not_claimed(std::string mode) {
  return {std::move(mode), ModeTest::State::kNotClaimed, -1.0F, "the device does not offer it"};
}

ModeTest failed(std::string mode, const Status& status) {
  return {std::move(mode), ModeTest::State::kFailed, -1.0F, status.message()};
}

}  // namespace

std::vector<ModeTest> test_modes(Backend& backend, int32_t device, uint64_t capabilities,
                                 bool with_ranks) {
  std::vector<ModeTest> tests;
  TinyModel tiny;
  const Status loaded = load(backend, device, 1, tiny);
  const Result<TinyResult> eager = loaded.ok() ? run_eager(tiny) : loaded;
  tests.push_back(eager.ok() ? ModeTest{"eager", ModeTest::State::kPassed, -1.0F,
                                        "a tiny model runs; its logits are finite"}
                             : failed("eager", eager.status()));
  const auto add = [&](const std::string& mode, uint64_t bit, const auto& compare) {
    if ((capabilities & bit) == 0) {
      tests.push_back(not_claimed(mode));
    } else if (!eager.ok()) {
      tests.push_back(failed(mode, failed_precondition("there is no eager run to compare with")));
    } else {
      tests.push_back(outcome(mode, compare()));
    }
  };
  add("prefill full", kCapabilityPrefillFull,
      [&] { return compare_prefill(tiny, PrefillMode::kFull, kTinyPagesARun, *eager); });
  add("prefill breakable", kCapabilityPrefillBreakable,
      [&] { return compare_prefill(tiny, PrefillMode::kBreakable, 2 * kTinyPagesARun, *eager); });
  add("decode graph", kCapabilityDecodeGraph,
      [&] { return compare_decode(tiny, 3 * kTinyPagesARun, *eager); });
  if (with_ranks) {
    add("collectives", kCapabilityCollectives,
        [&] { return compare_ranks(backend, device, *eager); });
  }
  return tests;
}

}  // namespace encore
