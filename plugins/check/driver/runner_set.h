// A KV cache and the runners on it, with limits small enough for a rule to reach.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "encore/backend.h"
#include "encore/status.h"

namespace encore::check {

struct RunnerSetOptions {
  KvOptions kv;
  CaptureOptions capture;
  bool eager = true;
  bool prefill = false;
  bool decode = false;
  bool decode_first = false;  // order of the two captures
};

// Destroyed from the last member up: runners before their KV cache.
struct RunnerSet {
  std::unique_ptr<KvCache> kv;
  std::optional<RunnerCapture> eager;
  std::optional<RunnerCapture> prefill;
  std::optional<RunnerCapture> decode;
};

// 8 requests, 64 new tokens a step, 128 tokens of context, 64 pages of 16, f32 keys and values
// (make_runner_set() lets the plugin choose if it offers none), buckets {16, 32, 64} and
// {1, 2, 4, 8}.
RunnerSetOptions small_options();

// Makes what `options` asks for: the eager runner first, then the two captures.
// Errors: the plugin's.
Result<RunnerSet> make_runner_set(Model& model, const RunnerSetOptions& options);

}  // namespace encore::check
