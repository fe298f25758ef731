// The host's structs as a plugin's C++ sees them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_layout.h"
#include "encore/sdk/abi_struct.h"

namespace encore::sdk {

// Text from the host is complete and valid: it is not cut.
inline std::string host_text(const char* data, uint64_t size) {
  return data == nullptr ? std::string() : std::string(data, static_cast<size_t>(size));
}

inline ModelSpec model_spec_from_abi(const encore_model_spec* source) {
  const encore_model_spec in = read_sized(source);
  const std::span<const float> inv_freq = span_of(in.inv_freq, in.inv_freq_count);
  ModelSpec spec;
  spec.architecture = host_text(in.architecture, in.architecture_size);
  spec.name = host_text(in.name, in.name_size);
  spec.vocab_size = in.vocab_size;
  spec.hidden_size = in.hidden_size;
  spec.intermediate_size = in.intermediate_size;
  spec.num_layers = in.num_layers;
  spec.num_heads = in.num_heads;
  spec.num_kv_heads = in.num_kv_heads;
  spec.head_dim = in.head_dim;
  spec.max_context = in.max_context;
  spec.rms_norm_eps = in.rms_norm_eps;
  spec.rope.style = static_cast<RopeStyle>(in.rope_style);
  spec.rope.inv_freq.assign(inv_freq.begin(), inv_freq.end());
  spec.rope.attention_scale = in.attention_scale;
  spec.tied_embeddings = in.tied_embeddings != 0;
  spec.qkv_bias = in.qkv_bias != 0;
  spec.attention_output_bias = in.attention_output_bias != 0;
  spec.mlp_bias = in.mlp_bias != 0;
  spec.qk_norm = in.qk_norm != 0;
  return spec;
}

inline std::vector<WeightInfo> weights_from_abi(const encore_weight_info* data, uint64_t count,
                                                uint64_t stride) {
  const StridedArray<encore_weight_info> source(data, count, stride);
  std::vector<WeightInfo> weights(source.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const encore_weight_info in = source[i];
    const std::span<const int64_t> shape = span_of(in.shape, in.shape_count);
    weights[i].name = host_text(in.name, in.name_size);
    weights[i].dtype = static_cast<DType>(in.dtype);
    weights[i].shape.assign(shape.begin(), shape.end());
    weights[i].bytes = in.bytes;
  }
  return weights;
}

inline OptionValues option_values_from_abi(const encore_option_value* data, uint64_t count,
                                           uint64_t stride) {
  const StridedArray<encore_option_value> source(data, count, stride);
  OptionValues values;
  values.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const encore_option_value in = source[i];
    values.emplace_back(host_text(in.key, in.key_size), host_text(in.value, in.value_size));
  }
  return values;
}

inline LoadOptions load_options_from_abi(const encore_load_options* source) {
  const encore_load_options in = read_sized(source);
  LoadOptions options;
  options.tensor_parallel_rank = in.tensor_parallel_rank;
  options.tensor_parallel_size = in.tensor_parallel_size;
  if (in.progress != nullptr) {
    options.progress = [in](int64_t done, int64_t total) {
      return in.progress(in.progress_context, done, total) == 0;
    };
  }
  return options;
}

inline KvOptions kv_options_from_abi(const encore_kv_options* source) {
  const encore_kv_options in = read_sized(source);
  return {.num_pages = in.num_pages,
          .page_size = in.page_size,
          .dtype = static_cast<DType>(in.dtype),
          .guards = in.guards != 0};
}

inline CaptureOptions capture_options_from_abi(const encore_capture_options* source) {
  const encore_capture_options in = read_sized(source);
  const encore_runner_limits limits = read_sized(in.limits);
  const std::span<const int32_t> prefill = span_of(in.prefill_buckets, in.prefill_buckets_count);
  const std::span<const int32_t> decode = span_of(in.decode_buckets, in.decode_buckets_count);
  CaptureOptions options;
  options.limits = {.max_requests = limits.max_requests,
                    .max_tokens = limits.max_tokens,
                    .max_context = limits.max_context,
                    .max_logprobs = limits.max_logprobs,
                    .max_history = limits.max_history,
                    .max_biases = limits.max_biases};
  options.prefill_mode = static_cast<PrefillMode>(in.prefill_mode);
  options.prefill_buckets.assign(prefill.begin(), prefill.end());
  options.decode_buckets.assign(decode.begin(), decode.end());
  options.padding = in.padding != 0;
  options.poison = in.poison != 0;
  options.guards = in.guards != 0;
  options.lazy = in.lazy != 0;
  if (in.progress != nullptr) {
    options.progress = [in](int32_t done, int32_t total) {
      in.progress(in.progress_context, done, total);
    };
  }
  return options;
}

// Room for the array elements of hosts whose structs are longer or shorter than this build's. With
// an equal host nothing is copied. Grows to the largest batch and stays.
struct BatchScratch {
  std::vector<RowSampling> sampling;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
};

// The array in place if its elements are this build's, else copied to `scratch`.
template <typename T, typename AbiT>
std::span<const T> elements_from_abi(const AbiT* data, uint64_t count, uint64_t stride,
                                     std::vector<T>* scratch) {
  static_assert(kSameLayout<T, AbiT>);
  const StridedArray<AbiT> source(data, count, stride);
  if (source.exact()) return {reinterpret_cast<const T*>(data), source.size()};
  scratch->resize(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    (*scratch)[i] = std::bit_cast<T>(source[i]);
  }
  return *scratch;
}

inline ForwardBatch batch_from_abi(const encore_forward_batch* source, BatchScratch* scratch) {
  const encore_forward_batch in = read_sized(source);
  ForwardBatch batch;
  batch.token_ids = span_of(in.token_ids, in.token_ids_count);
  batch.positions = span_of(in.positions, in.positions_count);
  batch.q_start = span_of(in.q_start, in.q_start_count);
  batch.kv_len = span_of(in.kv_len, in.kv_len_count);
  batch.page_start = span_of(in.page_start, in.page_start_count);
  batch.page_ids = span_of(in.page_ids, in.page_ids_count);
  batch.logit_rows = span_of(in.logit_rows, in.logit_rows_count);
  batch.sampling =
      elements_from_abi(in.sampling, in.sampling_count, in.sampling_stride, &scratch->sampling);
  batch.bias_start = span_of(in.bias_start, in.bias_start_count);
  batch.biases = elements_from_abi(in.biases, in.biases_count, in.biases_stride, &scratch->biases);
  batch.history_start = span_of(in.history_start, in.history_start_count);
  batch.history =
      elements_from_abi(in.history, in.history_count, in.history_stride, &scratch->history);
  batch.num_valid_tokens = in.num_valid_tokens;
  return batch;
}

inline StepOutput step_output_from_abi(const encore_step_output* source) {
  const encore_step_output in = read_sized(source);
  StepOutput output;
  output.tokens = span_of(in.tokens, in.tokens_count);
  output.row_status = span_of(in.row_status, in.row_status_count);
  output.logprobs = span_of(in.logprobs, in.logprobs_count);
  output.top_logprobs_width = in.top_logprobs_width;
  output.top_tokens = span_of(in.top_tokens, in.top_tokens_count);
  output.top_logprobs = span_of(in.top_logprobs, in.top_logprobs_count);
  output.logits = span_of(in.logits, in.logits_count);
  return output;
}

}  // namespace encore::sdk
