// From the tensors in a model's files to the weights of its specification.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "encore/model_spec.h"
#include "encore/status.h"
#include "encore/weights.h"
#include "model/tensor_store.h"

namespace encore {

// Refuses sizes that are zero, absurd or do not fit one another, so that what follows can size its
// memory by them. `where` names the file in messages.
Status check_spec(const ModelSpec& spec, const std::string& where);

enum class NameStyle {
  kHuggingFace,  // model.layers.0.self_attn.q_proj.weight
  kGguf,         // blk.0.attn_q.weight
};

// Matches every weight of `spec` with the file tensor that holds it and checks type and shape. The
// source keeps `store`'s files open and mapped and copies nothing.
// Adds a line to `notes` for tensors that are there and not used.
// REQUIRES: check_spec() passed.
// Errors: kNotFound for a missing tensor, kDataLoss for a wrong shape, kUnimplemented for a type
// that the weight cannot have (vectors are f32, f16 or bf16) or a layer's tensor that belongs to
// no weight. Messages name file, tensor, expected and found.
Result<std::unique_ptr<WeightSource>> bind_weights(const ModelSpec& spec, TensorStore store,
                                                   NameStyle style,
                                                   std::vector<std::string>& notes);

}  // namespace encore
