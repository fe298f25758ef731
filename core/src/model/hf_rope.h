// The RoPE part of a Hugging Face config.json.
#pragma once

#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "model/json_reader.h"

namespace encore {

// Sets spec.rope, and spec.max_context where the scaling decides it.
// REQUIRES: the other sizes in `spec` are read and checked.
// Errors: kUnimplemented for a RoPE type or a partial rotation; kInvalidArgument for a value of
// wrong type or out of range.
Status read_hf_rope(const JsonReader& config, ModelSpec& spec, std::vector<std::string>& notes);

}  // namespace encore
