// What making a runner cost: bytes and time, for each bucket and in all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "encore/reason.h"

namespace encore {

struct BucketReport {
  int32_t bucket = 0;
  Reason reason = Reason::kNone;  // kNone: captured; else why it was skipped
  std::string message;            // for people, if skipped
  int64_t arena_bytes = 0;        // of the shared arena, what this bucket uses
  int64_t executable_bytes = 0;   // the recorded graph itself
  int64_t workspace_bytes = 0;    // of the shared workspace, what this bucket uses
  int32_t num_nodes = 0;          // kernel calls a replay makes
  int32_t num_segments = 0;       // launches a replay makes; 1 unless breakable
  int64_t capture_us = 0;
};

// What a runner's creation cost. The sums count memory shared between buckets once, and memory
// shared with an earlier runner not at all.
struct CaptureReport {
  std::vector<BucketReport> buckets;  // largest first, as captured; empty for eager
  int64_t arena_bytes = 0;
  int64_t static_bytes = 0;  // static inputs and outputs, host staging included
  int64_t workspace_bytes = 0;
  int64_t executable_bytes = 0;
  int64_t total_us = 0;
  int64_t host_bytes = 0;  // of static_bytes, what lies in host memory

  int64_t memory_bytes() const {
    return arena_bytes + static_bytes + workspace_bytes + executable_bytes;
  }
};

}  // namespace encore
