#include "encore/lowering/model_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace encore::lowering {
namespace {

constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "mistral", "qwen2", "qwen3"};

Status check_architecture(const ModelSpec& spec) {
  if (std::find(kArchitectures.begin(), kArchitectures.end(), spec.architecture) !=
      kArchitectures.end()) {
    return {};
  }
  std::string known;
  for (const std::string_view name : kArchitectures) {
    known.append(known.empty() ? "" : ", ").append(name);
  }
  return unimplemented("architecture is '" + spec.architecture + "'; this backend runs " + known);
}

Status check_sizes(const ModelSpec& spec) {
  struct Size {
    const char* name;
    int64_t value;
  };
  for (const Size& size :
       {Size{"vocab_size", spec.vocab_size}, Size{"hidden_size", spec.hidden_size},
        Size{"intermediate_size", spec.intermediate_size}, Size{"num_layers", spec.num_layers},
        Size{"num_heads", spec.num_heads}, Size{"num_kv_heads", spec.num_kv_heads},
        Size{"head_dim", spec.head_dim}}) {
    if (size.value >= 1) continue;
    return invalid_argument(std::string(size.name) + " is " + std::to_string(size.value) +
                            "; it must be at least 1");
  }
  return {};
}

// "layers.3.q_norm.weight" -> "q_norm.weight"; other names stay as they are.
std::string_view without_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return name;
  const size_t dot = name.find('.', kPrefix.size());
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// The shape that the weight must have; empty for one that the model does not use.
std::vector<int64_t> expected_shape(const ModelSpec& spec, std::string_view name) {
  const std::string_view part = without_layer(name);
  const size_t dot = part.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view leaf = part.substr(0, dot);
  if (leaf == "norm" || leaf == "attention_norm" || leaf == "mlp_norm") return {spec.hidden_size};
  if (leaf == "q_norm" || leaf == "k_norm") return {spec.head_dim};
  std::vector<int64_t> shape;
  if (leaf == "embed" || leaf == "head") shape = {spec.vocab_size, spec.hidden_size};
  if (leaf == "q") shape = {spec.q_size(), spec.hidden_size};
  if (leaf == "k" || leaf == "v") shape = {spec.kv_size(), spec.hidden_size};
  if (leaf == "o") shape = {spec.hidden_size, spec.q_size()};
  if (leaf == "gate" || leaf == "up") shape = {spec.intermediate_size, spec.hidden_size};
  if (leaf == "down") shape = {spec.hidden_size, spec.intermediate_size};
  if (!shape.empty() && part.substr(dot) == ".bias") shape.pop_back();
  return shape;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    text.append(text.size() > 1 ? ", " : "").append(std::to_string(size));
  }
  return text.append("]");
}

}  // namespace

Status check_model(const ModelSpec& spec, std::span<const WeightInfo> weights) {
  ENCORE_RETURN_IF_ERROR(check_architecture(spec));
  ENCORE_RETURN_IF_ERROR(check_sizes(spec));
  for (const WeightInfo& weight : weights) {
    const std::vector<int64_t> expected = expected_shape(spec, weight.name);
    if (expected.empty() || weight.shape == expected) continue;
    return invalid_argument("weight '" + weight.name + "' has shape " + shape_text(weight.shape) +
                            "; this model needs " + shape_text(expected));
  }
  return {};
}

}  // namespace encore::lowering
