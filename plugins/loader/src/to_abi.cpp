#include "to_abi.h"

namespace encore {
namespace {

// The host's own progress function, called back with itself as the context. A progress function
// that throws is a defect of the host; it must not unwind through a plugin.
void capture_progress(void* context, int32_t done, int32_t total) noexcept {
  (*static_cast<const std::function<void(int32_t, int32_t)>*>(context))(done, total);
}

int32_t flag(bool value) { return value ? 1 : 0; }

}  // namespace

encore_model_spec model_spec_to_abi(const ModelSpec& spec) {
  return {.struct_size = sizeof(encore_model_spec),
          .architecture = spec.architecture.data(),
          .architecture_size = spec.architecture.size(),
          .name = spec.name.data(),
          .name_size = spec.name.size(),
          .vocab_size = spec.vocab_size,
          .hidden_size = spec.hidden_size,
          .intermediate_size = spec.intermediate_size,
          .num_layers = spec.num_layers,
          .num_heads = spec.num_heads,
          .num_kv_heads = spec.num_kv_heads,
          .head_dim = spec.head_dim,
          .max_context = spec.max_context,
          .inv_freq = spec.rope.inv_freq.data(),
          .inv_freq_count = spec.rope.inv_freq.size(),
          .attention_scale = spec.rope.attention_scale,
          .rms_norm_eps = spec.rms_norm_eps,
          .rope_style = static_cast<int32_t>(spec.rope.style),
          .tied_embeddings = flag(spec.tied_embeddings),
          .qkv_bias = flag(spec.qkv_bias),
          .attention_output_bias = flag(spec.attention_output_bias),
          .mlp_bias = flag(spec.mlp_bias),
          .qk_norm = flag(spec.qk_norm)};
}

std::vector<encore_weight_info> weights_to_abi(std::span<const WeightInfo> weights) {
  std::vector<encore_weight_info> out;
  out.reserve(weights.size());
  for (const WeightInfo& weight : weights) {
    out.push_back({.name = weight.name.data(),
                   .name_size = weight.name.size(),
                   .shape = weight.shape.data(),
                   .shape_count = weight.shape.size(),
                   .bytes = weight.bytes,
                   .dtype = static_cast<int32_t>(weight.dtype),
                   .reserved = 0});
  }
  return out;
}

std::vector<encore_option_value> option_values_to_abi(const OptionValues& values) {
  std::vector<encore_option_value> out;
  out.reserve(values.size());
  for (const auto& [key, value] : values) {
    out.push_back({key.data(), key.size(), value.data(), value.size()});
  }
  return out;
}

encore_kv_options kv_options_to_abi(const KvOptions& options) {
  return {.struct_size = sizeof(encore_kv_options),
          .num_pages = options.num_pages,
          .page_size = options.page_size,
          .dtype = static_cast<int32_t>(options.dtype),
          .guards = flag(options.guards)};
}

encore_runner_limits limits_to_abi(const RunnerLimits& limits) {
  return {.struct_size = sizeof(encore_runner_limits),
          .max_requests = limits.max_requests,
          .max_tokens = limits.max_tokens,
          .max_context = limits.max_context,
          .max_logprobs = limits.max_logprobs,
          .max_history = limits.max_history,
          .max_biases = limits.max_biases};
}

encore_capture_options capture_options_to_abi(const CaptureOptions& options,
                                              const encore_runner_limits& limits) {
  return {.struct_size = sizeof(encore_capture_options),
          .limits = &limits,
          .prefill_buckets = options.prefill_buckets.data(),
          .prefill_buckets_count = options.prefill_buckets.size(),
          .decode_buckets = options.decode_buckets.data(),
          .decode_buckets_count = options.decode_buckets.size(),
          .prefill_mode = static_cast<int32_t>(options.prefill_mode),
          .padding = flag(options.padding),
          .poison = flag(options.poison),
          .guards = flag(options.guards),
          .progress = options.progress ? capture_progress : nullptr,
          .progress_context = const_cast<std::function<void(int32_t, int32_t)>*>(&options.progress),
          .lazy = flag(options.lazy),
          .reserved = 0};
}

}  // namespace encore
