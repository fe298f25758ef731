// A GGUF file's keys as a ModelSpec.
#pragma once

#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "model/gguf.h"

namespace encore {

// Reads the keys under the file's architecture, and from its tensors whether the head is tied,
// which biases there are, and the RoPE factors (rope_freqs.weight).
//
// Llama files store the rows of q and k for adjacent-pair rotation, and that order is kept
// (RopeStyle::kAdjacentPairs): undoing it would mean to unpack quantised rows. Qwen files keep the
// half-split order.
// Errors: kUnimplemented for an architecture, RoPE type, sliding window or mixture of experts that
// Encore does not support; kInvalidArgument for a key that is missing, of wrong type or range.
Result<ModelSpec> read_gguf_config(const GgufFiles& files, const std::string& path);

}  // namespace encore
