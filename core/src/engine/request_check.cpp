#include "engine/request_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace encore {
namespace {

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

Status check_range(const char* name, double value, double minimum, double maximum) {
  if (value >= minimum && value <= maximum) return {};  // false for NaN
  return invalid_argument(std::string(name) + " is " + number(value) + "; it must be from " +
                          number(minimum) + " to " + number(maximum));
}

Status check_token(const char* name, int32_t token, int32_t num_valid_tokens) {
  if (token >= 0 && token < num_valid_tokens) return {};
  return invalid_argument(std::string(name) + " holds token id " + std::to_string(token) +
                          "; ids of this model run from 0 to " +
                          std::to_string(num_valid_tokens - 1));
}

Status check_biases(const std::vector<TokenBias>& biases, int32_t num_valid_tokens) {
  std::vector<int32_t> seen;
  seen.reserve(biases.size());
  for (const TokenBias& bias : biases) {
    ENCORE_RETURN_IF_ERROR(check_token("logit_bias", bias.token, num_valid_tokens));
    seen.push_back(bias.token);
    if (bias.bias == -std::numeric_limits<float>::infinity()) continue;
    ENCORE_RETURN_IF_ERROR(check_range("logit_bias", bias.bias, -100.0, 100.0));
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice == seen.end()) return {};
  return invalid_argument("logit_bias names token id " + std::to_string(*twice) +
                          " twice; give each token one bias");
}

Status check_sampling(const SamplingParams& sampling, const EngineOptions& engine) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0.0F) {
    return invalid_argument("temperature is " + number(sampling.temperature) +
                            "; it must be a finite number from 0 (greedy) up");
  }
  if (!(sampling.top_p > 0.0F && sampling.top_p <= 1.0F)) {
    return invalid_argument("top_p is " + number(sampling.top_p) +
                            "; it must be above 0 and at most 1 (off)");
  }
  ENCORE_RETURN_IF_ERROR(check_range("min_p", sampling.min_p, 0.0, 1.0));
  if (sampling.top_k < -1) {
    return invalid_argument("top_k is " + std::to_string(sampling.top_k) +
                            "; it must be at least 1, or 0 or -1 for off");
  }
  if (!std::isfinite(sampling.repetition_penalty) || sampling.repetition_penalty <= 0.0F) {
    return invalid_argument("repetition_penalty is " + number(sampling.repetition_penalty) +
                            "; it must be a finite number above 0 (1 is off)");
  }
  ENCORE_RETURN_IF_ERROR(check_range("presence_penalty", sampling.presence_penalty, -2.0, 2.0));
  ENCORE_RETURN_IF_ERROR(check_range("frequency_penalty", sampling.frequency_penalty, -2.0, 2.0));
  ENCORE_RETURN_IF_ERROR(check_biases(sampling.logit_bias, engine.num_valid_tokens));
  if (sampling.num_logprobs < -1 || sampling.num_logprobs > engine.limits.max_logprobs) {
    return invalid_argument("num_logprobs is " + std::to_string(sampling.num_logprobs) +
                            "; it must be from 0 to " + std::to_string(engine.limits.max_logprobs) +
                            ", or -1 for none");
  }
  return {};
}

Status check_prompt(const std::vector<int32_t>& prompt, const EngineOptions& engine,
                    const KvInfo& kv) {
  if (prompt.empty()) return invalid_argument("the prompt is empty; it needs at least one token");
  if (prompt.size() >= static_cast<size_t>(engine.limits.max_context)) {
    return invalid_argument("the prompt has " + std::to_string(prompt.size()) +
                            " tokens; the context limit is " +
                            std::to_string(engine.limits.max_context) +
                            " for prompt and reply together, so shorten the prompt");
  }
  const int64_t kv_tokens = static_cast<int64_t>(kv.num_pages) * kv.page_size;
  if (static_cast<int64_t>(prompt.size()) > kv_tokens) {
    return invalid_argument("the prompt has " + std::to_string(prompt.size()) +
                            " tokens; the KV cache holds " + std::to_string(kv_tokens) +
                            ": shorten the prompt or raise kv_cache.max_tokens");
  }
  for (const int32_t token : prompt) {
    ENCORE_RETURN_IF_ERROR(check_token("the prompt", token, engine.num_valid_tokens));
  }
  return {};
}

// The reply's length under all limits.
Result<int32_t> output_limit(const RequestOptions& options, const EngineOptions& engine,
                             const KvInfo& kv) {
  if (options.max_tokens == 0 || options.max_tokens < -1) {
    return invalid_argument("max_tokens is " + std::to_string(options.max_tokens) +
                            "; it must be at least 1, or -1 for as many as fit");
  }
  const auto prompt_size = static_cast<int32_t>(options.prompt.size());
  const int32_t fitting = request_token_limit(engine.limits, kv) - prompt_size;
  if (options.max_tokens == -1) return fitting;
  const int32_t output = std::min(options.max_tokens, engine.limits.max_context - prompt_size);
  if (output > fitting) {
    return invalid_argument(
        "a prompt of " + std::to_string(prompt_size) + " tokens and max_tokens of " +
        std::to_string(output) + " can never fit the KV cache of " + std::to_string(kv.num_pages) +
        " pages of " + std::to_string(kv.page_size) + " tokens; lower max_tokens to " +
        std::to_string(fitting) + " or raise kv_cache.max_tokens");
  }
  return output;
}

Status check_stops(const RequestOptions& options, const EngineOptions& engine, int32_t max_output) {
  for (const int32_t token : options.stop_tokens) {
    ENCORE_RETURN_IF_ERROR(check_token("stop_tokens", token, engine.num_valid_tokens));
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) return invalid_argument("a stop string is empty; leave it out");
    if (!engine.make_text) {
      return invalid_argument("stop strings need text, and this engine was made without any");
    }
  }
  if (options.sampling.min_tokens < 0 || options.sampling.min_tokens > max_output) {
    return invalid_argument("min_tokens is " + std::to_string(options.sampling.min_tokens) +
                            "; it must be from 0 to the reply's limit, " +
                            std::to_string(max_output));
  }
  return {};
}

RowSampling make_row(const SamplingParams& sampling, int32_t num_valid_tokens) {
  RowSampling row;
  row.temperature = sampling.temperature;
  row.top_p = sampling.top_p;
  row.min_p = sampling.min_p;
  row.repetition_penalty = sampling.repetition_penalty;
  row.presence_penalty = sampling.presence_penalty;
  row.frequency_penalty = sampling.frequency_penalty;
  row.top_k = sampling.top_k >= num_valid_tokens ? 0 : std::max(sampling.top_k, 0);
  row.num_logprobs = sampling.num_logprobs;
  row.seed = sampling.seed;
  return row;
}

void set_stop_tokens(const RequestOptions& options, const EngineOptions& engine,
                     RequestState& state) {
  state.stop_tokens = options.stop_tokens;
  if (!options.ignore_eos) {
    state.stop_tokens.insert(state.stop_tokens.end(), engine.end_tokens.begin(),
                             engine.end_tokens.end());
  }
  std::sort(state.stop_tokens.begin(), state.stop_tokens.end());
  state.stop_tokens.erase(std::unique(state.stop_tokens.begin(), state.stop_tokens.end()),
                          state.stop_tokens.end());
}

// A step must be able to hold what one request adds to it, or the request could never run.
Status check_buffers(const RequestState& state, int32_t num_valid_tokens,
                     const RunnerLimits& limits) {
  if (static_cast<int64_t>(state.biases.size()) > limits.max_biases) {
    return invalid_argument("logit_bias and banned stop tokens need " +
                            std::to_string(state.biases.size()) + " entries; the limit is " +
                            std::to_string(limits.max_biases));
  }
  if (!state.penalised) return {};
  const int32_t entries = std::min(
      num_valid_tokens, (state.history_has_prompt ? state.prompt_size : 0) + state.max_output);
  if (entries > limits.max_history) {
    return invalid_argument("penalties over up to " + std::to_string(entries) +
                            " different tokens are asked for; the limit is " +
                            std::to_string(limits.max_history) + ": lower max_tokens");
  }
  return {};
}

}  // namespace

int32_t request_token_limit(const RunnerLimits& limits, const KvInfo& kv) {
  const int64_t kv_tokens = static_cast<int64_t>(kv.num_pages) * kv.page_size;
  return static_cast<int32_t>(std::min<int64_t>(limits.max_context, kv_tokens + 1));
}

Result<std::unique_ptr<RequestState>> make_request(RequestOptions options,
                                                   const EngineOptions& engine, const KvInfo& kv) {
  const SamplingParams& sampling = options.sampling;
  ENCORE_RETURN_IF_ERROR(check_prompt(options.prompt, engine, kv));
  ENCORE_RETURN_IF_ERROR(check_sampling(sampling, engine));
  ENCORE_ASSIGN_OR_RETURN(const int32_t max_output, output_limit(options, engine, kv));
  ENCORE_RETURN_IF_ERROR(check_stops(options, engine, max_output));

  auto state = std::make_unique<RequestState>();
  state->prompt_size = static_cast<int32_t>(options.prompt.size());
  state->max_output = max_output;
  state->min_output = sampling.min_tokens;
  state->row = make_row(sampling, engine.num_valid_tokens);
  state->history_has_prompt = sampling.repetition_penalty != 1.0F;
  state->penalised = state->history_has_prompt || sampling.presence_penalty != 0.0F ||
                     sampling.frequency_penalty != 0.0F;
  set_stop_tokens(options, engine, *state);
  state->biases = sampling.logit_bias;
  state->num_caller_biases = static_cast<int32_t>(state->biases.size());
  if (state->min_output > 0) {
    for (const int32_t token : state->stop_tokens) {
      state->biases.push_back({token, -std::numeric_limits<float>::infinity()});
    }
  }
  ENCORE_RETURN_IF_ERROR(check_buffers(*state, engine.num_valid_tokens, engine.limits));
  state->stops = StopMatcher(options.stop);
  if (engine.make_text) state->text = engine.make_text();
  state->tokens = std::move(options.prompt);
  return state;
}

}  // namespace encore
