// Sampling parameters of a request: what the configuration says, else what the model's authors
// recommend, else built-in values.
#pragma once

#include <cstdint>

#include "config/config_loader.h"
#include "engine/request.h"
#include "model/model_files.h"

namespace encore {

// `seed` is used unless the configuration has one.
SamplingParams resolve_sampling(const LoadedConfig& loaded, const GenerationDefaults& model,
                                uint64_t seed);

// A seed from the system's entropy, small enough to be written in JSON and typed again.
uint64_t draw_seed();

}  // namespace encore
