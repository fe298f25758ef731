#include "model/gguf_config.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "model/gguf_keys.h"
#include "model/model_weights.h"
#include "model/printable.h"
#include "model/rope_table.h"

namespace encore {
namespace {

class ConfigReader {
 public:
  ConfigReader(const GgufFiles& files, std::string where, const std::string& architecture)
      : files_(files), keys_(files.metadata, architecture + ".", std::move(where)) {
    spec_.architecture = architecture;
  }

  Result<ModelSpec> read() {
    ENCORE_RETURN_IF_ERROR(read_sizes());
    ENCORE_RETURN_IF_ERROR(read_head_dim());
    ENCORE_RETURN_IF_ERROR(read_vocab_size());
    read_tensors_present();
    ENCORE_RETURN_IF_ERROR(check_spec(spec_, keys_.where()));
    ENCORE_RETURN_IF_ERROR(refuse_unsupported());
    ENCORE_RETURN_IF_ERROR(read_rope());
    return std::move(spec_);
  }

 private:
  Status read_sizes() {
    ENCORE_RETURN_IF_ERROR(
        GgufKeys(files_.metadata, "general.", keys_.where()).read("name", &spec_.name));
    ENCORE_RETURN_IF_ERROR(keys_.require("embedding_length", &spec_.hidden_size));
    ENCORE_RETURN_IF_ERROR(keys_.require("feed_forward_length", &spec_.intermediate_size));
    ENCORE_RETURN_IF_ERROR(keys_.require("block_count", &spec_.num_layers));
    ENCORE_RETURN_IF_ERROR(keys_.require("attention.head_count", &spec_.num_heads));
    ENCORE_RETURN_IF_ERROR(keys_.require("context_length", &spec_.max_context));
    spec_.num_kv_heads = spec_.num_heads;
    ENCORE_RETURN_IF_ERROR(keys_.read("attention.head_count_kv", &spec_.num_kv_heads));
    if (!keys_.has("attention.layer_norm_rms_epsilon")) {
      return invalid_argument(
          concat_message(keys_.where(), ": key ",
                         printable(keys_.name("attention.layer_norm_rms_epsilon")), " is missing"));
    }
    double eps = 0.0;
    ENCORE_RETURN_IF_ERROR(keys_.read("attention.layer_norm_rms_epsilon", &eps));
    // Out-of-range doubles must not reach the narrowing; check_spec() names the range.
    spec_.rms_norm_eps = eps > 0.0 && eps < 1.0 ? static_cast<float>(eps) : 0.0F;
    return {};
  }

  Status read_head_dim() {
    if (!keys_.has("attention.key_length")) {
      if (spec_.num_heads < 1 || spec_.hidden_size % spec_.num_heads != 0) {
        return invalid_argument(concat_message(keys_.where(), ": embedding length ",
                                               spec_.hidden_size, " does not divide evenly among ",
                                               spec_.num_heads, " heads, and there is no key ",
                                               printable(keys_.name("attention.key_length"))));
      }
      spec_.head_dim = spec_.hidden_size / spec_.num_heads;
    }
    ENCORE_RETURN_IF_ERROR(keys_.read("attention.key_length", &spec_.head_dim));
    ENCORE_RETURN_IF_ERROR(expect("attention.value_length", spec_.head_dim, "the head dimension"));
    return expect("rope.dimension_count", spec_.head_dim, "the head dimension: partial rotation");
  }

  // The key, if it is there, must equal `expected`.
  Status expect(const char* key, int64_t expected, const char* what) const {
    int64_t value = expected;
    ENCORE_RETURN_IF_ERROR(keys_.read(key, &value));
    if (value == expected) return {};
    return unimplemented(concat_message(keys_.where(), ": key ", printable(keys_.name(key)), " is ",
                                        value, "; supported: ", expected, ", ", what,
                                        " is unsupported"));
  }

  // The key, else the tokenizer's size, else the embedding's rows.
  Status read_vocab_size() {
    const auto embedding = files_.store.tensors.find("token_embd.weight");
    if (embedding != files_.store.tensors.end()) spec_.vocab_size = embedding->second.shape.front();
    if (const auto* tokens =
            gguf_find<std::vector<std::string>>(files_.metadata, "tokenizer.ggml.tokens")) {
      spec_.vocab_size = static_cast<int64_t>(tokens->size());
    }
    return keys_.read("vocab_size", &spec_.vocab_size);
  }

  bool has_tensor(std::string_view name) const {
    return files_.store.tensors.find(name) != files_.store.tensors.end();
  }

  // GGUF has no keys for these. That every layer agrees with the first is checked on binding.
  void read_tensors_present() {
    spec_.tied_embeddings = !has_tensor("output.weight");
    spec_.qkv_bias = spec_.architecture == "qwen2" || has_tensor("blk.0.attn_q.bias");
    spec_.attention_output_bias = has_tensor("blk.0.attn_output.bias");
    spec_.mlp_bias = has_tensor("blk.0.ffn_gate.bias");
    spec_.qk_norm = spec_.architecture == "qwen3";
  }

  Status refuse_unsupported() const {
    int64_t window = 0;
    ENCORE_RETURN_IF_ERROR(keys_.read("attention.sliding_window", &window));
    if (window > 0 && window < spec_.max_context) {
      return unimplemented(concat_message(keys_.where(), " puts a sliding window of ", window,
                                          " tokens in force in a context of ", spec_.max_context,
                                          "; only full attention is supported"));
    }
    int64_t experts = 0;
    ENCORE_RETURN_IF_ERROR(keys_.read("expert_count", &experts));
    if (experts > 0) {
      return unimplemented(concat_message(keys_.where(), " is a mixture of ", experts,
                                          " experts; only dense models are supported"));
    }
    for (const char* key : {"attention.scale", "attention.clamp_kqv", "logit_scale"}) {
      if (keys_.has(key)) {
        return unimplemented(concat_message(keys_.where(), " has key ", printable(keys_.name(key)),
                                            ", which is unsupported"));
      }
    }
    return {};
  }

  Status read_rope() {
    RopeParameters p;
    p.original_context = static_cast<double>(spec_.max_context);
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.freq_base", &p.theta));
    ENCORE_RETURN_IF_ERROR(read_rope_scaling(&p));
    ENCORE_RETURN_IF_ERROR(read_rope_factors(&p));
    const RopeStyle style =
        spec_.architecture == "llama" ? RopeStyle::kAdjacentPairs : RopeStyle::kHalfSplit;
    ENCORE_ASSIGN_OR_RETURN(spec_.rope, make_rope(p, spec_.head_dim, style, keys_.where()));
    return {};
  }

  Status read_rope_scaling(RopeParameters* p) {
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scale_linear", &p->factor));  // the older key
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.factor", &p->factor));
    // Writers put 0 or 1 where there is no scaling, and leave the type out where it is linear.
    const bool scaled = p->factor != 0.0 && p->factor != 1.0;
    std::string type = scaled ? "linear" : "none";
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.type", &type));
    ENCORE_ASSIGN_OR_RETURN(p->scaling, parse_rope_scaling(type, keys_.where()));
    if (p->scaling == RopeScaling::kDynamic || p->scaling == RopeScaling::kLlama3) {
      return unimplemented(concat_message(keys_.where(), " has RoPE type ", printable(type),
                                          ", which GGUF has no keys for; supported: none, linear, "
                                          "yarn, and factors in rope_freqs.weight"));
    }
    if (p->scaling == RopeScaling::kLinear && !scaled) p->scaling = RopeScaling::kNone;
    return p->scaling == RopeScaling::kYarn ? read_yarn(p) : Status();
  }

  Status read_yarn(RopeParameters* p) {
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.yarn_beta_fast", &p->beta_fast));
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.yarn_beta_slow", &p->beta_slow));
    int64_t original = spec_.max_context;
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.original_context_length", &original));
    p->original_context = static_cast<double>(original);
    double log_multiplier = 0.0;
    double extrapolation = 1.0;
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.yarn_log_multiplier", &log_multiplier));
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.yarn_ext_factor", &extrapolation));
    if (log_multiplier != 0.0 || extrapolation != 1.0) {
      return unimplemented(concat_message(keys_.where(), " has yarn_log_multiplier ",
                                          log_multiplier, " and yarn_ext_factor ", extrapolation,
                                          "; supported: 0 and 1"));
    }
    double attention = 1.0;
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.attn_factor", &attention));
    ENCORE_RETURN_IF_ERROR(keys_.read("rope.scaling.yarn_attn_factor", &attention));
    if (p->factor > 1.0) attention *= 1.0 + 0.1 * std::log(p->factor);
    p->attention_factor = attention;
    return {};
  }

  // rope_freqs.weight [head_dim / 2] f32 divides the frequencies (Llama 3.1 and later).
  Status read_rope_factors(RopeParameters* p) {
    const auto found = files_.store.tensors.find("rope_freqs.weight");
    if (found == files_.store.tensors.end()) return {};
    const StoredTensor& tensor = found->second;
    const int64_t pairs = spec_.head_dim / 2;
    if (tensor.dtype != DType::kF32 || tensor.shape != std::vector<int64_t>{pairs}) {
      return data_loss(concat_message(
          keys_.where(), ": tensor 'rope_freqs.weight' has type ", tensor.type_name, " and shape ",
          printable_shape(tensor.shape), "; expected f32 and [", pairs, "]"));
    }
    std::vector<float> divisors(static_cast<size_t>(pairs));
    ENCORE_RETURN_IF_ERROR(files_.store.files[tensor.file]->read(
        tensor.offset, std::as_writable_bytes(std::span(divisors))));
    p->divisors.assign(divisors.begin(), divisors.end());
    return {};
  }

  const GgufFiles& files_;
  GgufKeys keys_;
  ModelSpec spec_;
};

}  // namespace

Result<ModelSpec> read_gguf_config(const GgufFiles& files, const std::string& path) {
  const std::string where = "file " + printable(path);
  std::string architecture;
  ENCORE_RETURN_IF_ERROR(
      GgufKeys(files.metadata, "general.", where).read("architecture", &architecture));
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3") {
    return unimplemented(concat_message(where, " has general.architecture ",
                                        printable(architecture),
                                        "; supported: llama, qwen2, qwen3"));
  }
  return ConfigReader(files, where, architecture).read();
}

}  // namespace encore
