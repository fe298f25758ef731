#include "model/hf_rope.h"

#include <algorithm>
#include <cmath>

#include "model/printable.h"
#include "model/rope_table.h"

namespace encore {
namespace {

using Json = nlohmann::json;

// The object with the RoPE parameters in any of the layouts, or null. The older one wins, as in
// transformers.
const Json* rope_object(const JsonReader& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* found = config.find(key);
    if (found == nullptr || (found->is_object() && found->empty())) continue;
    // One set of parameters for each kind of layer; only full attention is supported anyhow.
    if (found->is_object() && found->contains("full_attention")) {
      return &(*found)["full_attention"];
    }
    return found;
  }
  return nullptr;
}

Status refuse_partial(const JsonReader& reader) {
  double rotated = 1.0;
  ENCORE_RETURN_IF_ERROR(reader.read("partial_rotary_factor", &rotated));
  if (rotated == 1.0) return {};
  return unimplemented(
      concat_message(reader.where(), " has partial_rotary_factor ", rotated, "; supported: 1"));
}

Status read_parameters(const JsonReader& rope, RopeParameters* p) {
  std::string type = "default";
  ENCORE_RETURN_IF_ERROR(rope.read("type", &type));
  ENCORE_RETURN_IF_ERROR(rope.read("rope_type", &type));
  ENCORE_ASSIGN_OR_RETURN(p->scaling, parse_rope_scaling(type, rope.where()));
  ENCORE_RETURN_IF_ERROR(rope.read("rope_theta", &p->theta));
  ENCORE_RETURN_IF_ERROR(rope.read("factor", &p->factor));
  ENCORE_RETURN_IF_ERROR(rope.read("low_freq_factor", &p->low_freq_factor));
  ENCORE_RETURN_IF_ERROR(rope.read("high_freq_factor", &p->high_freq_factor));
  ENCORE_RETURN_IF_ERROR(rope.read("beta_fast", &p->beta_fast));
  ENCORE_RETURN_IF_ERROR(rope.read("beta_slow", &p->beta_slow));
  ENCORE_RETURN_IF_ERROR(rope.read("mscale", &p->mscale));
  ENCORE_RETURN_IF_ERROR(rope.read("mscale_all_dim", &p->mscale_all_dim));
  ENCORE_RETURN_IF_ERROR(rope.read("truncate", &p->truncate));
  return rope.read("attention_factor", &p->attention_factor);
}

Status require_keys(const JsonReader& rope, RopeScaling scaling) {
  std::vector<const char*> keys;
  if (scaling != RopeScaling::kNone && scaling != RopeScaling::kYarn) keys.push_back("factor");
  if (scaling == RopeScaling::kLlama3) {
    keys.insert(keys.end(), {"low_freq_factor", "high_freq_factor"});
  }
  for (const char* key : keys) {
    if (!rope.has(key)) {
      return invalid_argument(
          concat_message(rope.where(), ": ", key, " is missing; this RoPE type needs it"));
    }
  }
  return {};
}

// Tokens that the scaled table is good for.
void limit_context(const RopeParameters& p, bool original_given, ModelSpec& spec,
                   std::vector<std::string>& notes) {
  if (p.scaling == RopeScaling::kDynamic) {
    const double original = original_given ? p.original_context : 0.0;
    if (original >= 1.0 && original < static_cast<double>(spec.max_context)) {
      spec.max_context = static_cast<int64_t>(original);
    }
    notes.push_back(
        concat_message("dynamic RoPE scaling is supported up to the original context: "
                       "the limit is ",
                       spec.max_context, " tokens"));
  }
  if (p.scaling == RopeScaling::kYarn && original_given) {
    // Some configurations keep the original limit and leave the stretched one to be derived.
    const double stretched = std::floor(p.original_context * p.factor);
    if (stretched > static_cast<double>(spec.max_context) && stretched <= 1 << 30) {
      spec.max_context = static_cast<int64_t>(stretched);
    }
  }
}

}  // namespace

Status read_hf_rope(const JsonReader& config, ModelSpec& spec, std::vector<std::string>& notes) {
  RopeParameters p;
  ENCORE_RETURN_IF_ERROR(config.read("rope_theta", &p.theta));
  ENCORE_RETURN_IF_ERROR(refuse_partial(config));
  p.original_context = static_cast<double>(spec.max_context);
  bool original_given = config.has("original_max_position_embeddings");
  if (const Json* object = rope_object(config)) {
    const JsonReader rope(*object, config.where() + ": RoPE parameters");
    if (!object->is_object()) {
      return invalid_argument(rope.where() + " must be an object, found a " + object->type_name());
    }
    ENCORE_RETURN_IF_ERROR(read_parameters(rope, &p));
    ENCORE_RETURN_IF_ERROR(refuse_partial(rope));
    ENCORE_RETURN_IF_ERROR(require_keys(rope, p.scaling));
    original_given = original_given || rope.has("original_max_position_embeddings");
    ENCORE_RETURN_IF_ERROR(rope.read("original_max_position_embeddings", &p.original_context));
    // yarn may leave the factor to be derived.
    if (p.scaling == RopeScaling::kYarn && !rope.has("factor") && p.original_context > 0.0) {
      p.factor = static_cast<double>(spec.max_context) / p.original_context;
    }
  }
  // As in transformers, a value beside the RoPE parameters wins over one among them.
  ENCORE_RETURN_IF_ERROR(config.read("original_max_position_embeddings", &p.original_context));
  ENCORE_ASSIGN_OR_RETURN(spec.rope,
                          make_rope(p, spec.head_dim, RopeStyle::kHalfSplit, config.where()));
  limit_context(p, original_given, spec, notes);
  return {};
}

}  // namespace encore
