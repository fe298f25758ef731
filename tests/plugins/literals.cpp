#include "literals.h"

#include <algorithm>
#include <sstream>

namespace encore::literals {
namespace {

template <typename T>
std::string show(const T& value) {
  std::ostringstream text;
  if constexpr (std::is_enum_v<T>) {
    text << static_cast<int64_t>(value);
  } else {
    text << value;
  }
  return text.str();
}

template <typename Range>
std::string show_range(const Range& range) {
  std::string text = "[";
  for (const auto& value : range) text += show(value) + " ";
  return text + "]";
}

// Remembers the first difference.
class Comparison {
 public:
  template <typename T>
  void value(const char* field, const T& found, const T& expected) {
    if (text_.empty() && !(found == expected)) {
      text_ = std::string(field) + ": found " + show(found) + ", expected " + show(expected);
    }
  }

  template <typename Range>
  void range(const char* field, const Range& found, const Range& expected) {
    const bool equal = std::equal(found.begin(), found.end(), expected.begin(), expected.end());
    if (text_.empty() && !equal) {
      text_ = std::string(field) + ": found " + show_range(found) + ", expected " +
              show_range(expected);
    }
  }

  std::string result() const { return text_; }

 private:
  std::string text_;
};

#define ENCORE_COMPARE(field) comparison.value(#field, found.field, expected.field)
#define ENCORE_COMPARE_RANGE(field) comparison.range(#field, found.field, expected.field)

}  // namespace

ModelSpec spec() {
  ModelSpec spec;
  spec.architecture = "qwen3";
  spec.name = "Modèle";
  spec.vocab_size = 101;
  spec.hidden_size = 102;
  spec.intermediate_size = 103;
  spec.num_layers = 104;
  spec.num_heads = 105;
  spec.num_kv_heads = 106;
  spec.head_dim = 107;
  spec.max_context = int64_t{1} << 40;
  spec.rms_norm_eps = 1.25F;
  spec.rope.style = RopeStyle::kAdjacentPairs;
  spec.rope.inv_freq = {1.0F, 0.5F, 0.125F};
  spec.rope.attention_scale = 1.75F;
  spec.tied_embeddings = true;
  spec.qkv_bias = false;
  spec.attention_output_bias = true;
  spec.mlp_bias = false;
  spec.qk_norm = true;
  return spec;
}

std::vector<WeightInfo> weights() {
  return {{.name = "embed.weight", .dtype = DType::kF32, .shape = {4, 2}, .bytes = 32},
          {.name = "norm.weight", .dtype = DType::kF16, .shape = {6}, .bytes = 12}};
}

LoadOptions load_options() {
  return {.tensor_parallel_rank = 3, .tensor_parallel_size = 8, .progress = {}};
}

KvOptions kv_options() {
  return {.num_pages = 201, .page_size = 32, .dtype = DType::kBF16, .guards = true};
}

KvInfo kv_info() {
  return {.num_pages = 201,
          .page_size = 32,
          .page_bytes = 24,
          .total_bytes = int64_t{1} << 41,
          .dtype = DType::kBF16};
}

ModelInfo model_info() {
  return {.weight_bytes = int64_t{1} << 42,
          .mapped_bytes = 302,
          .workspace_bytes = 303,
          .step_weight_bytes = 304};
}

CaptureOptions capture_options() {
  CaptureOptions options;
  options.limits = {.max_requests = 401,
                    .max_tokens = 402,
                    .max_context = 403,
                    .max_logprobs = 404,
                    .max_history = 405,
                    .max_biases = 406};
  options.prefill_mode = PrefillMode::kBreakable;
  options.prefill_buckets = {16, 402};
  options.decode_buckets = {1, 3, 401};
  options.padding = false;
  options.poison = true;
  options.guards = false;
  options.lazy = true;
  return options;
}

CaptureReport capture_report() {
  CaptureReport report;
  report.buckets = {{.bucket = 402,
                     .reason = Reason::kNone,
                     .message = "",
                     .arena_bytes = 501,
                     .executable_bytes = 502,
                     .workspace_bytes = 503,
                     .num_nodes = 504,
                     .num_segments = 505,
                     .capture_us = 506},
                    {.bucket = 16,
                     .reason = Reason::kCaptureFailed,
                     .message = "the device refused",
                     .arena_bytes = 511,
                     .executable_bytes = 512,
                     .workspace_bytes = 513,
                     .num_nodes = 514,
                     .num_segments = 515,
                     .capture_us = 516}};
  report.arena_bytes = 521;
  report.static_bytes = 522;
  report.workspace_bytes = 523;
  report.executable_bytes = 524;
  report.total_us = 525;
  report.host_bytes = 526;
  return report;
}

MemoryPlan memory_plan() {
  return {.kv_page_bytes = int64_t{1} << 44,
          .kv_fixed_bytes = 531,
          .runner_bytes = 532,
          .executable_bytes = 533};
}

CaptureReport bucket_capture_report() {
  CaptureReport report;
  report.buckets = {{.bucket = 16,
                     .reason = Reason::kOutOfMemory,
                     .message = "no room",
                     .arena_bytes = 541,
                     .executable_bytes = 542,
                     .workspace_bytes = 543,
                     .num_nodes = 544,
                     .num_segments = 545,
                     .capture_us = 546}};
  report.executable_bytes = 547;
  report.total_us = 548;
  return report;
}

std::vector<TraceEvent> trace_events() {
  return {{.name = "layer 0 qkv", .start_us = 0.0, .duration_us = 1.25, .lane = 0},
          {.name = "Größe", .start_us = 2.5, .duration_us = 0.0, .lane = 7}};
}

std::vector<OptionSchema> schema() {
  return {{.key = "threads",
           .type = OptionType::kInt,
           .default_value = "auto",
           .minimum = 1.0,
           .maximum = 64.0,
           .choices = {"auto", "all"},
           .help = "Worker threads."},
          {.key = "isa",
           .type = OptionType::kEnum,
           .default_value = "avx2",
           .minimum = 0.0,
           .maximum = -1.0,
           .choices = {"avx2", "avx512"},
           .help = "Instruction set."}};
}

OptionValues option_values() { return {{"threads", "12"}, {"isa", "avx512"}}; }

BackendIdentity identity() {
  return {.name = "vendor.echo", .vendor = "Vendor", .version = "9.8.7", .build_id = "b-42"};
}

DeviceInfo device_info() {
  return {.id = "echo:1",
          .name = "Echo",
          .architecture = "mirror",
          .capabilities = kCapabilityDecodeGraph | kCapabilityAsync | kCapabilityDeviceMemory};
}

Step::Step() {
  sampling.resize(2);
  sampling[0] = {.temperature = 0.25F,
                 .top_p = 0.5F,
                 .min_p = 0.125F,
                 .repetition_penalty = 1.5F,
                 .presence_penalty = 2.5F,
                 .frequency_penalty = 3.5F,
                 .top_k = 71,
                 .num_logprobs = 3,
                 .seed = 0xFEDCBA9876543210ULL,
                 .position = int64_t{1} << 43};
  sampling[1].top_k = 72;
}

ForwardBatch Step::batch() const {
  ForwardBatch batch;
  batch.token_ids = token_ids;
  batch.positions = positions;
  batch.q_start = q_start;
  batch.kv_len = kv_len;
  batch.page_start = page_start;
  batch.page_ids = page_ids;
  batch.logit_rows = logit_rows;
  batch.sampling = sampling;
  batch.bias_start = bias_start;
  batch.biases = biases;
  batch.history_start = history_start;
  batch.history = history;
  batch.num_valid_tokens = 99;
  return batch;
}

StepOutput Step::output() {
  StepOutput output;
  output.tokens = tokens;
  output.row_status = row_status;
  output.logprobs = logprobs;
  output.top_logprobs_width = 3;
  output.top_tokens = top_tokens;
  output.top_logprobs = top_logprobs;
  output.logits = logits;
  return output;
}

void fill_output(const StepOutput& output) {
  const auto fill = [](auto span, int first) {
    for (size_t i = 0; i < span.size(); ++i) {
      span[i] = static_cast<std::decay_t<decltype(span[0])>>(first + static_cast<int>(i));
    }
  };
  fill(output.tokens, 601);
  fill(output.row_status, 611);
  fill(output.logprobs, 621);
  fill(output.top_tokens, 631);
  fill(output.top_logprobs, 641);
  fill(output.logits, 651);
}

std::string difference(const ModelSpec& found, const ModelSpec& expected) {
  Comparison comparison;
  ENCORE_COMPARE(architecture);
  ENCORE_COMPARE(name);
  ENCORE_COMPARE(vocab_size);
  ENCORE_COMPARE(hidden_size);
  ENCORE_COMPARE(intermediate_size);
  ENCORE_COMPARE(num_layers);
  ENCORE_COMPARE(num_heads);
  ENCORE_COMPARE(num_kv_heads);
  ENCORE_COMPARE(head_dim);
  ENCORE_COMPARE(max_context);
  ENCORE_COMPARE(rms_norm_eps);
  ENCORE_COMPARE(rope.style);
  ENCORE_COMPARE_RANGE(rope.inv_freq);
  ENCORE_COMPARE(rope.attention_scale);
  ENCORE_COMPARE(tied_embeddings);
  ENCORE_COMPARE(qkv_bias);
  ENCORE_COMPARE(attention_output_bias);
  ENCORE_COMPARE(mlp_bias);
  ENCORE_COMPARE(qk_norm);
  return comparison.result();
}

std::string difference(const std::vector<WeightInfo>& all_found,
                       const std::vector<WeightInfo>& all_expected) {
  Comparison comparison;
  comparison.value("number of weights", all_found.size(), all_expected.size());
  for (size_t i = 0; i < std::min(all_found.size(), all_expected.size()); ++i) {
    const WeightInfo& found = all_found[i];
    const WeightInfo& expected = all_expected[i];
    ENCORE_COMPARE(name);
    ENCORE_COMPARE(dtype);
    ENCORE_COMPARE_RANGE(shape);
    ENCORE_COMPARE(bytes);
  }
  return comparison.result();
}

std::string difference(const LoadOptions& found, const LoadOptions& expected) {
  Comparison comparison;
  ENCORE_COMPARE(tensor_parallel_rank);
  ENCORE_COMPARE(tensor_parallel_size);
  return comparison.result();
}

std::string difference(const KvOptions& found, const KvOptions& expected) {
  Comparison comparison;
  ENCORE_COMPARE(num_pages);
  ENCORE_COMPARE(page_size);
  ENCORE_COMPARE(dtype);
  ENCORE_COMPARE(guards);
  return comparison.result();
}

std::string difference(const KvInfo& found, const KvInfo& expected) {
  Comparison comparison;
  ENCORE_COMPARE(num_pages);
  ENCORE_COMPARE(page_size);
  ENCORE_COMPARE(page_bytes);
  ENCORE_COMPARE(total_bytes);
  ENCORE_COMPARE(dtype);
  return comparison.result();
}

std::string difference(const ModelInfo& found, const ModelInfo& expected) {
  Comparison comparison;
  ENCORE_COMPARE(weight_bytes);
  ENCORE_COMPARE(mapped_bytes);
  ENCORE_COMPARE(workspace_bytes);
  ENCORE_COMPARE(step_weight_bytes);
  return comparison.result();
}

std::string difference(const CaptureOptions& found, const CaptureOptions& expected) {
  Comparison comparison;
  ENCORE_COMPARE(limits.max_requests);
  ENCORE_COMPARE(limits.max_tokens);
  ENCORE_COMPARE(limits.max_context);
  ENCORE_COMPARE(limits.max_logprobs);
  ENCORE_COMPARE(limits.max_history);
  ENCORE_COMPARE(limits.max_biases);
  ENCORE_COMPARE(prefill_mode);
  ENCORE_COMPARE_RANGE(prefill_buckets);
  ENCORE_COMPARE_RANGE(decode_buckets);
  ENCORE_COMPARE(padding);
  ENCORE_COMPARE(poison);
  ENCORE_COMPARE(guards);
  ENCORE_COMPARE(lazy);
  return comparison.result();
}

namespace {

std::string difference(const BucketReport& found, const BucketReport& expected) {
  Comparison comparison;
  ENCORE_COMPARE(bucket);
  ENCORE_COMPARE(reason);
  ENCORE_COMPARE(message);
  ENCORE_COMPARE(arena_bytes);
  ENCORE_COMPARE(executable_bytes);
  ENCORE_COMPARE(workspace_bytes);
  ENCORE_COMPARE(num_nodes);
  ENCORE_COMPARE(num_segments);
  ENCORE_COMPARE(capture_us);
  return comparison.result();
}

}  // namespace

std::string difference(const CaptureReport& found, const CaptureReport& expected) {
  Comparison comparison;
  comparison.value("number of buckets", found.buckets.size(), expected.buckets.size());
  ENCORE_COMPARE(arena_bytes);
  ENCORE_COMPARE(static_bytes);
  ENCORE_COMPARE(workspace_bytes);
  ENCORE_COMPARE(executable_bytes);
  ENCORE_COMPARE(total_us);
  ENCORE_COMPARE(host_bytes);
  std::string text = comparison.result();
  for (size_t i = 0; i < found.buckets.size() && text.empty(); ++i) {
    text = difference(found.buckets[i], expected.buckets[i]);
  }
  return text;
}

std::string difference(const MemoryPlan& found, const MemoryPlan& expected) {
  Comparison comparison;
  ENCORE_COMPARE(kv_page_bytes);
  ENCORE_COMPARE(kv_fixed_bytes);
  ENCORE_COMPARE(runner_bytes);
  ENCORE_COMPARE(executable_bytes);
  return comparison.result();
}

std::string difference(const std::vector<TraceEvent>& all_found,
                       const std::vector<TraceEvent>& all_expected) {
  Comparison comparison;
  comparison.value("number of events", all_found.size(), all_expected.size());
  for (size_t i = 0; i < std::min(all_found.size(), all_expected.size()); ++i) {
    const TraceEvent& found = all_found[i];
    const TraceEvent& expected = all_expected[i];
    ENCORE_COMPARE(name);
    ENCORE_COMPARE(start_us);
    ENCORE_COMPARE(duration_us);
    ENCORE_COMPARE(lane);
  }
  return comparison.result();
}

std::string difference(const std::vector<OptionSchema>& all_found,
                       const std::vector<OptionSchema>& all_expected) {
  Comparison comparison;
  comparison.value("number of options", all_found.size(), all_expected.size());
  for (size_t i = 0; i < std::min(all_found.size(), all_expected.size()); ++i) {
    const OptionSchema& found = all_found[i];
    const OptionSchema& expected = all_expected[i];
    ENCORE_COMPARE(key);
    ENCORE_COMPARE(type);
    ENCORE_COMPARE(default_value);
    ENCORE_COMPARE(minimum);
    ENCORE_COMPARE(maximum);
    ENCORE_COMPARE_RANGE(choices);
    ENCORE_COMPARE(help);
  }
  return comparison.result();
}

std::string difference(const ForwardBatch& found, const ForwardBatch& expected) {
  Comparison comparison;
  ENCORE_COMPARE_RANGE(token_ids);
  ENCORE_COMPARE_RANGE(positions);
  ENCORE_COMPARE_RANGE(q_start);
  ENCORE_COMPARE_RANGE(kv_len);
  ENCORE_COMPARE_RANGE(page_start);
  ENCORE_COMPARE_RANGE(page_ids);
  ENCORE_COMPARE_RANGE(logit_rows);
  ENCORE_COMPARE_RANGE(bias_start);
  ENCORE_COMPARE_RANGE(history_start);
  ENCORE_COMPARE(num_valid_tokens);
  ENCORE_COMPARE(sampling.size());
  ENCORE_COMPARE(biases.size());
  ENCORE_COMPARE(history.size());
  if (!comparison.result().empty()) return comparison.result();
  for (size_t i = 0; i < expected.sampling.size(); ++i) {
    ENCORE_COMPARE(sampling[i].temperature);
    ENCORE_COMPARE(sampling[i].top_p);
    ENCORE_COMPARE(sampling[i].min_p);
    ENCORE_COMPARE(sampling[i].repetition_penalty);
    ENCORE_COMPARE(sampling[i].presence_penalty);
    ENCORE_COMPARE(sampling[i].frequency_penalty);
    ENCORE_COMPARE(sampling[i].top_k);
    ENCORE_COMPARE(sampling[i].num_logprobs);
    ENCORE_COMPARE(sampling[i].seed);
    ENCORE_COMPARE(sampling[i].position);
  }
  for (size_t i = 0; i < expected.biases.size(); ++i) {
    ENCORE_COMPARE(biases[i].token);
    ENCORE_COMPARE(biases[i].bias);
  }
  for (size_t i = 0; i < expected.history.size(); ++i) {
    ENCORE_COMPARE(history[i].token);
    ENCORE_COMPARE(history[i].in_prompt);
    ENCORE_COMPARE(history[i].in_output);
  }
  return comparison.result();
}

std::string difference(const StepOutput& found, const StepOutput& expected) {
  Comparison comparison;
  ENCORE_COMPARE(tokens.size());
  ENCORE_COMPARE(row_status.size());
  ENCORE_COMPARE(logprobs.size());
  ENCORE_COMPARE(top_logprobs_width);
  ENCORE_COMPARE(top_tokens.size());
  ENCORE_COMPARE(top_logprobs.size());
  ENCORE_COMPARE(logits.size());
  return comparison.result();
}

}  // namespace encore::literals
