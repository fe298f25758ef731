// A test aid: buckets whose capture is to fail, as if the device had refused them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "encore/reason.h"
#include "encore/status.h"

namespace encore::lowering {

// Of one model. Changed between captures only.
class CaptureFaults {
 public:
  // See Model::fail_capture.
  Status set(int32_t bucket, Reason reason) {
    if (reason == Reason::kNone) {
      buckets_.erase(bucket);
      return {};
    }
    if (reason != Reason::kOutOfMemory && reason != Reason::kCaptureFailed) {
      return invalid_argument("a capture cannot be made to fail with reason " +
                              std::to_string(static_cast<int32_t>(reason)) +
                              "; it can with out_of_memory and capture_failed");
    }
    buckets_[bucket] = reason;
    return {};
  }

  // What capturing the bucket ends with, before anything is recorded.
  Status strike(int32_t bucket) const {
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end()) return {};
    const std::string message = "bucket " + std::to_string(bucket) + " was made to fail by a test";
    return found->second == Reason::kOutOfMemory ? out_of_memory(message) : unavailable(message);
  }

 private:
  std::map<int32_t, Reason> buckets_;
};

}  // namespace encore::lowering
