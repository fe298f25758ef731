// Why a runner cannot run a batch, or why a bucket was not captured.
//
// Every fallback carries one of these: in a counter, in a log line, and across the C ABI.
#pragma once

#include <cstdint>
#include <string_view>

namespace encore {

// The numbers are part of the C ABI: only append.
enum class Reason : int32_t {
  kNone = 0,              // nothing stands in the way
  kDisabled = 1,          // this mode is switched off in the configuration
  kNotCaptured = 2,       // the bucket was not captured, or not yet
  kTooManyTokens = 3,     // more new tokens than the largest bucket
  kTooManyRequests = 4,   // more requests than the runner was made for
  kNotDecode = 5,         // a request brings more than one new token (decode graph only)
  kNoExactBucket = 6,     // padding is off and no bucket has exactly this size
  kContextTooLong = 7,    // a request's page list is longer than the runner was made for
  kTooManyLogitRows = 8,  // more rows want logits than the runner was made for
  kTooManyLogprobs = 9,   // a row wants more log-probabilities than the runner was made for
  kHistoryTooLong = 10,   // penalty history exceeds the static buffer
  kTooManyBiases = 11,    // logit biases exceed the static buffer
  kLogitsRequested = 12,  // the batch wants whole logit rows, which this runner does not give
  kObserved = 13,         // a layer observer is registered and this runner cannot break for it
  kSlower = 14,           // another runner was measured to be faster for this bucket
  kOutOfMemory = 15,      // the bucket did not fit
  kCaptureFailed = 16,    // the device refused to capture the bucket
  kNoLayerStack = 17,     // the model has no part that is independent of the number of requests
  kUnsupported = 18,      // the device has no such mode
};

inline constexpr int32_t kNumReasons = 19;

// The name used in logs and metrics.
constexpr std::string_view reason_name(Reason reason) {
  constexpr std::string_view kNames[kNumReasons] = {"none",
                                                    "disabled",
                                                    "not_captured",
                                                    "too_many_tokens",
                                                    "too_many_requests",
                                                    "not_decode",
                                                    "no_exact_bucket",
                                                    "context_too_long",
                                                    "too_many_logit_rows",
                                                    "too_many_logprobs",
                                                    "history_too_long",
                                                    "too_many_biases",
                                                    "logits_requested",
                                                    "observed",
                                                    "slower",
                                                    "out_of_memory",
                                                    "capture_failed",
                                                    "no_layer_stack",
                                                    "unsupported"};
  const auto index = static_cast<int32_t>(reason);
  return index >= 0 && index < kNumReasons ? kNames[index] : std::string_view("unknown");
}

}  // namespace encore
