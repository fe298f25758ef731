// A Hugging Face config.json as a ModelSpec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"

namespace encore {

struct HfConfig {
  ModelSpec spec;
  std::vector<int64_t> eos_ids;
  std::vector<std::string> notes;
};

// Reads the text of `path`'s config.json. Values that are absent have the defaults that
// transformers gives them. Knows the layouts with rope_scaling ("type" or "rope_type") and with
// rope_parameters.
// Errors: kUnimplemented for an architecture, activation, RoPE type, quantisation or sliding window
// that Encore does not support; kInvalidArgument for a value of wrong type or out of range.
Result<HfConfig> read_hf_config(std::string_view text, const std::string& path);

}  // namespace encore
