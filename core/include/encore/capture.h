// Capturing a model: the three runners of a model on one KV cache, made once at start-up.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "encore/backend.h"
#include "encore/runner.h"
#include "encore/status.h"

namespace encore {

struct EagerCapture {
  std::shared_ptr<Runner> runner;
  CaptureReport report;
};

struct PrefillCapture {
  std::shared_ptr<Runner> runner;  // the eager runner itself if prefill is not captured
  PrefillMode mode = PrefillMode::kOff;
  CaptureReport report;
};

struct DecodeCapture {
  std::shared_ptr<Runner> runner;  // null if decode was not captured
  int64_t graph_memory_bytes = 0;
  std::vector<BucketReport> buckets;
  CaptureReport report;
};

// Immutable once made. Destroy it before the KV cache.
struct GraphsCapture {
  EagerCapture eager;
  PrefillCapture prefill;
  DecodeCapture decode;
};

struct GraphsOptions {
  CaptureOptions capture;
  bool capture_decode = true;  // a draft model says false and captures its own
  bool decode_first = false;   // order of the two captures; must not matter for results
};

// Eager first (it warms the kernels and owns the canonical static buffers), then prefill and
// decode. Either of the last two can also be made alone.
// Errors: the eager runner's; a graph runner that fails as a whole is an error too, since buckets
// that fail are only skipped.
Result<GraphsCapture> capture_graphs(Model& model, KvCache& kv, const GraphsOptions& options);
Result<PrefillCapture> capture_prefill_graph(Model& model, KvCache& kv,
                                             const CaptureOptions& options);
Result<DecodeCapture> capture_decode_graph(Model& model, KvCache& kv,
                                           const CaptureOptions& options);

}  // namespace encore
