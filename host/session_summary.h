// What opening a session took and what its captures cost: plain numbers for reports.
#pragma once

#include <cstdint>

#include "encore/backend.h"

namespace encore {

// In microseconds.
struct SessionTimings {
  int64_t backend_us = 0;    // plugin and device
  int64_t files_us = 0;      // model headers
  int64_t tokenizer_us = 0;  // built beside load and capture, so not part of the sum
  int64_t load_us = 0;       // weights
  int64_t capture_us = 0;    // the three runners
  int64_t total_us = 0;
};

// Kept because the engine takes the captures themselves.
struct CaptureSummary {
  CaptureReport eager;
  CaptureReport prefill;  // empty if prefill_mode is kOff
  CaptureReport decode;   // empty if there is no decode graph
  PrefillMode prefill_mode = PrefillMode::kOff;
  bool has_decode = false;

  // Takes in the report of one bucket that was captured after all.
  void add(RunnerKind kind, const CaptureReport& later) {
    CaptureReport& report = kind == RunnerKind::kDecodeGraph ? decode : prefill;
    for (const BucketReport& bucket : later.buckets) {
      for (BucketReport& known : report.buckets) {
        if (known.bucket == bucket.bucket) known = bucket;
      }
    }
    report.arena_bytes += later.arena_bytes;
    report.static_bytes += later.static_bytes;
    report.workspace_bytes += later.workspace_bytes;
    report.executable_bytes += later.executable_bytes;
    report.total_us += later.total_us;
    report.host_bytes += later.host_bytes;
  }

  int64_t memory_bytes() const {
    return eager.memory_bytes() + prefill.memory_bytes() + decode.memory_bytes();
  }
};

}  // namespace encore
