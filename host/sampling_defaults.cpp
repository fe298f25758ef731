#include "sampling_defaults.h"

#include <algorithm>
#include <random>

namespace encore {
namespace {

float pick(float configured, const std::optional<double>& recommended, float built_in) {
  if (configured >= 0.0F) return configured;
  return recommended ? static_cast<float>(*recommended) : built_in;
}

}  // namespace

SamplingParams resolve_sampling(const LoadedConfig& loaded, const GenerationDefaults& model,
                                uint64_t seed) {
  const SamplingConfig& config = loaded.config.sampling;
  SamplingParams params;
  // A model whose authors switched sampling off is greedy unless the user says otherwise.
  const bool greedy = model.do_sample.has_value() && !*model.do_sample;
  params.temperature = pick(config.temperature, model.temperature, 1.0F);
  if (config.temperature < 0.0F && greedy) params.temperature = 0.0F;
  params.top_p = pick(config.top_p, model.top_p, 1.0F);
  params.min_p = config.min_p;
  if (loaded.origin("sampling.min_p") == "default" && model.min_p) {
    params.min_p = static_cast<float>(*model.min_p);
  }
  params.repetition_penalty = pick(config.repetition_penalty, model.repetition_penalty, 1.0F);
  params.presence_penalty = config.presence_penalty;
  params.frequency_penalty = config.frequency_penalty;
  const int64_t recommended_top_k = std::clamp<int64_t>(model.top_k.value_or(0), 0, INT32_MAX);
  params.top_k = config.top_k >= 0 ? config.top_k : static_cast<int32_t>(recommended_top_k);
  params.seed = config.seed >= 0 ? static_cast<uint64_t>(config.seed) : seed;
  return params;
}

uint64_t draw_seed() {
  std::random_device device;
  return device() & 0x7FFFFFFFU;
}

}  // namespace encore
