// One value for every field that crosses the boundary, no two alike within a struct, and functions
// that name the first field which differs. Both ends use them: the echo plugin compares what it
// was given, the test compares what came back.
#pragma once

#include <string>
#include <vector>

#include "encore/backend.h"

namespace encore::literals {

ModelSpec spec();
std::vector<WeightInfo> weights();
LoadOptions load_options();  // without progress
KvOptions kv_options();
KvInfo kv_info();
ModelInfo model_info();
CaptureOptions capture_options();  // without progress
CaptureReport capture_report();
MemoryPlan memory_plan();
CaptureReport bucket_capture_report();
std::vector<TraceEvent> trace_events();
std::vector<OptionSchema> schema();
OptionValues option_values();
BackendIdentity identity();
DeviceInfo device_info();

// A batch of 3 tokens, 2 requests, 2 logit rows, over storage of its own.
struct Step {
  std::vector<int32_t> token_ids = {11, -1, 13};
  std::vector<int32_t> positions = {21, 22, 23};
  std::vector<int32_t> q_start = {0, 2, 3};
  std::vector<int32_t> kv_len = {31, 32};
  std::vector<int32_t> page_start = {0, 3, 5};
  std::vector<int32_t> page_ids = {41, 42, 43, 44, 45};
  std::vector<int32_t> logit_rows = {1, 2};
  std::vector<RowSampling> sampling;
  std::vector<int32_t> bias_start = {0, 1, 3};
  std::vector<TokenBias> biases = {{51, 0.5F}, {52, 1.5F}, {53, -2.5F}};
  std::vector<int32_t> history_start = {0, 1, 2};
  std::vector<TokenCount> history = {{61, 62, 63}, {64, 65, 66}};

  std::vector<int32_t> tokens = {0, 0};
  std::vector<int32_t> row_status = {0, 0};
  std::vector<float> logprobs = {0, 0};
  std::vector<int32_t> top_tokens = {0, 0, 0, 0, 0, 0};
  std::vector<float> top_logprobs = {0, 0, 0, 0, 0, 0};
  std::vector<float> logits = {0, 0, 0, 0, 0, 0, 0, 0};

  Step();
  ForwardBatch batch() const;
  StepOutput output();
};

// Writes what the echo backend answers; compares with it.
void fill_output(const StepOutput& output);

// Empty if equal, else "field: found X, expected Y".
std::string difference(const ModelSpec& found, const ModelSpec& expected);
std::string difference(const std::vector<WeightInfo>& found,
                       const std::vector<WeightInfo>& expected);
std::string difference(const LoadOptions& found, const LoadOptions& expected);
std::string difference(const KvOptions& found, const KvOptions& expected);
std::string difference(const KvInfo& found, const KvInfo& expected);
std::string difference(const ModelInfo& found, const ModelInfo& expected);
std::string difference(const CaptureOptions& found, const CaptureOptions& expected);
std::string difference(const CaptureReport& found, const CaptureReport& expected);
std::string difference(const MemoryPlan& found, const MemoryPlan& expected);
std::string difference(const std::vector<TraceEvent>& found,
                       const std::vector<TraceEvent>& expected);
std::string difference(const std::vector<OptionSchema>& found,
                       const std::vector<OptionSchema>& expected);
std::string difference(const ForwardBatch& found, const ForwardBatch& expected);
// Sizes and width only: outputs are written, not read.
std::string difference(const StepOutput& found, const StepOutput& expected);

}  // namespace encore::literals
