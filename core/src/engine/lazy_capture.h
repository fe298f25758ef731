// Captures the buckets of lazily made graphs, one at a time, between steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "encore/capture.h"
#include "encore/runner.h"
#include "encore/status.h"
#include "engine/log.h"

namespace encore {

// Knows which buckets are missing and how often each was asked for. One thread: the one that steps
// the engine, and so a bucket appears between two steps. Borrows the runners.
class LazyCapture {
 public:
  // A bucket whose turn has come, as it was captured or why it was not.
  struct Captured {
    RunnerKind kind = RunnerKind::kEager;
    CaptureReport report;
  };

  LazyCapture(const GraphsCapture& graphs, LogSink log);

  bool pending() const { return !missing_.empty(); }
  int32_t num_pending() const { return static_cast<int32_t>(missing_.size()); }

  // A step would have used this bucket. Allocates nothing.
  void asked(RunnerKind kind, int32_t bucket);

  // Captures the bucket most asked for, the largest first among equals. A bucket that fails is
  // logged and never tried again. REQUIRES: pending().
  Captured capture_next();

 private:
  struct Missing {
    Runner* runner = nullptr;
    int32_t bucket = 0;
    int64_t asked = 0;
  };

  void add(Runner* runner, const CaptureReport& report);

  std::vector<Missing> missing_;
  LogSink log_;
};

}  // namespace encore
