// A small model run through the C table: weights to sampled tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "encore/backend_abi.h"
#include "random_model.h"
#include "raw_plugin.h"
#include "tailor.h"
#include "weight_bridge.h"

namespace encore::check {

// Handles that free themselves, in the order that the ABI asks for: declare them in this order.
using RawModel = std::unique_ptr<encore_model, void (*)(encore_model*)>;
using RawKv = std::unique_ptr<encore_kv, void (*)(encore_kv*)>;
using RawRunner = std::unique_ptr<encore_runner, void (*)(encore_runner*)>;

RandomModel small_model();

// Loads a model; `bridge` is borrowed for the model's life.
Result<RawModel> raw_load(const RawSession& session, const RandomModel& model,
                          const WeightBridge& bridge, Tailor& tailor);
Result<RawKv> raw_kv(const RawSession& session, encore_model* model, Tailor& tailor);
using RawCapture = decltype(encore_backend_table::eager_create);
Result<RawRunner> raw_runner(const RawSession& session, RawCapture capture, encore_model* model,
                             encore_kv* kv, Tailor& tailor);

// What a few steps gave: a prompt, then decodes of the tokens sampled.
struct RawRun {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // of the last step
};

// Loads, creates all three runners that the device offers, and runs; everything handed over is cut
// by `tailor`. Errors: the plugin's; kUnimplemented if it does not run such a model.
Result<RawRun> raw_run(const RawSession& session, Tailor& tailor);

// Empty if both runs gave the same tokens, and logits that differ by rounding at most.
std::string run_difference(const RawRun& expected, const RawRun& found);

}  // namespace encore::check
