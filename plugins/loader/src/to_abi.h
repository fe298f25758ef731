// The host's C++ values in the ABI's terms. All results point into their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "encore/backend.h"
#include "encore/backend_abi.h"
#include "encore/sdk/abi_layout.h"
#include "encore/sdk/abi_struct.h"

namespace encore {

encore_model_spec model_spec_to_abi(const ModelSpec& spec);
std::vector<encore_weight_info> weights_to_abi(std::span<const WeightInfo> weights);
std::vector<encore_option_value> option_values_to_abi(const OptionValues& values);
encore_kv_options kv_options_to_abi(const KvOptions& options);
encore_runner_limits limits_to_abi(const RunnerLimits& limits);
// `limits` is the result of limits_to_abi().
encore_capture_options capture_options_to_abi(const CaptureOptions& options,
                                              const encore_runner_limits& limits);

// The two below are part of every step: they copy pointers and lengths, nothing else.

template <typename AbiT, typename T>
const AbiT* elements_to_abi(std::span<const T> elements) {
  static_assert(sdk::kSameLayout<T, AbiT>);
  return reinterpret_cast<const AbiT*>(elements.data());
}

inline encore_forward_batch batch_to_abi(const ForwardBatch& batch) {
  return {.struct_size = sizeof(encore_forward_batch),
          .token_ids = batch.token_ids.data(),
          .token_ids_count = batch.token_ids.size(),
          .positions = batch.positions.data(),
          .positions_count = batch.positions.size(),
          .q_start = batch.q_start.data(),
          .q_start_count = batch.q_start.size(),
          .kv_len = batch.kv_len.data(),
          .kv_len_count = batch.kv_len.size(),
          .page_start = batch.page_start.data(),
          .page_start_count = batch.page_start.size(),
          .page_ids = batch.page_ids.data(),
          .page_ids_count = batch.page_ids.size(),
          .logit_rows = batch.logit_rows.data(),
          .logit_rows_count = batch.logit_rows.size(),
          .sampling = elements_to_abi<encore_row_sampling>(batch.sampling),
          .sampling_count = batch.sampling.size(),
          .sampling_stride = sizeof(encore_row_sampling),
          .bias_start = batch.bias_start.data(),
          .bias_start_count = batch.bias_start.size(),
          .biases = elements_to_abi<encore_token_bias>(batch.biases),
          .biases_count = batch.biases.size(),
          .biases_stride = sizeof(encore_token_bias),
          .history_start = batch.history_start.data(),
          .history_start_count = batch.history_start.size(),
          .history = elements_to_abi<encore_token_count>(batch.history),
          .history_count = batch.history.size(),
          .history_stride = sizeof(encore_token_count),
          .num_valid_tokens = batch.num_valid_tokens,
          .reserved = 0};
}

inline encore_step_output step_output_to_abi(const StepOutput& output) {
  return {.struct_size = sizeof(encore_step_output),
          .tokens = output.tokens.data(),
          .tokens_count = output.tokens.size(),
          .row_status = output.row_status.data(),
          .row_status_count = output.row_status.size(),
          .logprobs = output.logprobs.data(),
          .logprobs_count = output.logprobs.size(),
          .top_tokens = output.top_tokens.data(),
          .top_tokens_count = output.top_tokens.size(),
          .top_logprobs = output.top_logprobs.data(),
          .top_logprobs_count = output.top_logprobs.size(),
          .logits = output.logits.data(),
          .logits_count = output.logits.size(),
          .top_logprobs_width = output.top_logprobs_width,
          .reserved = 0};
}

}  // namespace encore
