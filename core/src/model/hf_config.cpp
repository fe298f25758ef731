#include "model/hf_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/hf_rope.h"
#include "model/json_reader.h"
#include "model/model_weights.h"
#include "model/printable.h"

namespace encore {
namespace {

using Json = nlohmann::json;

struct Architecture {
  std::string_view model_type;
  std::string_view class_name;
  int64_t default_head_dim;        // 0: hidden_size / num_heads
  int64_t default_kv_heads;        // 0: num_heads
  int64_t default_sliding_window;  // 0: none
};

// Defaults are those of the configuration classes in transformers.
constexpr std::array<Architecture, 4> kArchitectures = {{
    {"llama", "LlamaForCausalLM", 0, 0, 0},
    {"mistral", "MistralForCausalLM", 0, 8, 4096},
    {"qwen2", "Qwen2ForCausalLM", 0, 32, 4096},
    {"qwen3", "Qwen3ForCausalLM", 128, 32, 4096},
}};

class ConfigReader {
 public:
  ConfigReader(const Json& config, const std::string& where) : reader_(config, where) {}

  Result<HfConfig> read() {
    ENCORE_RETURN_IF_ERROR(read_architecture());
    ENCORE_RETURN_IF_ERROR(refuse_unsupported());
    ENCORE_RETURN_IF_ERROR(read_sizes());
    ENCORE_RETURN_IF_ERROR(read_biases());
    ENCORE_RETURN_IF_ERROR(check_spec(spec(), reader_.where()));
    ENCORE_RETURN_IF_ERROR(refuse_sliding_window());
    ENCORE_RETURN_IF_ERROR(read_hf_rope(reader_, spec(), result_.notes));
    ENCORE_RETURN_IF_ERROR(check_spec(spec(), reader_.where()));
    ENCORE_RETURN_IF_ERROR(reader_.read_list("eos_token_id", &result_.eos_ids));
    return std::move(result_);
  }

 private:
  ModelSpec& spec() { return result_.spec; }

  Status read_architecture() {
    std::string model_type;
    ENCORE_RETURN_IF_ERROR(reader_.read("model_type", &model_type));
    const auto* found = std::find_if(
        kArchitectures.begin(), kArchitectures.end(),
        [&](const Architecture& candidate) { return candidate.model_type == model_type; });
    if (found == kArchitectures.end()) {
      return unimplemented(concat_message(reader_.where(), " has model_type ",
                                          printable(model_type),
                                          "; supported: llama, mistral, qwen2, qwen3"));
    }
    architecture_ = found;
    spec().architecture = found->model_type;
    const Json* classes = reader_.find("architectures");
    if (classes == nullptr || !classes->is_array() || classes->empty()) return {};
    const Json& first = classes->front();
    if (first.is_string() && first.get_ref<const std::string&>() == found->class_name) return {};
    return unimplemented(
        concat_message(reader_.where(), " has architecture ",
                       printable(first.is_string() ? first.get<std::string>() : first.type_name()),
                       "; supported for this model_type: ", found->class_name));
  }

  Status refuse_unsupported() {
    std::string activation = "silu";
    ENCORE_RETURN_IF_ERROR(reader_.read("hidden_act", &activation));
    if (activation != "silu") {
      return unimplemented(concat_message(reader_.where(), " has hidden_act ",
                                          printable(activation), "; supported: silu"));
    }
    bool mrope = false;
    ENCORE_RETURN_IF_ERROR(reader_.read("use_mrope", &mrope));
    if (mrope) {
      return unimplemented(reader_.where() + " has use_mrope true; multimodal RoPE is unsupported");
    }
    if (const Json* quantisation = reader_.find("quantization_config")) {
      const JsonReader inner(*quantisation, reader_.where() + ": quantization_config");
      std::string method = "unknown";
      if (quantisation->is_object()) ENCORE_RETURN_IF_ERROR(inner.read("quant_method", &method));
      return unimplemented(concat_message(reader_.where(), " has weights quantised by ",
                                          printable(method),
                                          "; supported: unquantised, or a GGUF file"));
    }
    return {};
  }

  Status read_sizes() {
    ENCORE_RETURN_IF_ERROR(reader_.read("_name_or_path", &spec().name));
    ENCORE_RETURN_IF_ERROR(reader_.require("vocab_size", &spec().vocab_size));
    ENCORE_RETURN_IF_ERROR(reader_.require("hidden_size", &spec().hidden_size));
    ENCORE_RETURN_IF_ERROR(reader_.require("intermediate_size", &spec().intermediate_size));
    ENCORE_RETURN_IF_ERROR(reader_.require("num_hidden_layers", &spec().num_layers));
    ENCORE_RETURN_IF_ERROR(reader_.require("num_attention_heads", &spec().num_heads));
    ENCORE_RETURN_IF_ERROR(reader_.require("max_position_embeddings", &spec().max_context));
    spec().num_kv_heads =
        architecture_->default_kv_heads > 0 ? architecture_->default_kv_heads : spec().num_heads;
    ENCORE_RETURN_IF_ERROR(reader_.read("num_key_value_heads", &spec().num_kv_heads));
    double eps = 1e-6;
    ENCORE_RETURN_IF_ERROR(reader_.read("rms_norm_eps", &eps));
    if (!(eps > 0.0 && eps < 1.0)) {
      return invalid_argument(concat_message(reader_.where(), ": rms_norm_eps is ", eps,
                                             "; it must be above 0 and below 1"));
    }
    spec().rms_norm_eps = static_cast<float>(eps);
    return read_head_dim();
  }

  // The configuration's own value wins over hidden_size / num_heads.
  Status read_head_dim() {
    spec().head_dim = architecture_->default_head_dim;
    ENCORE_RETURN_IF_ERROR(reader_.read("head_dim", &spec().head_dim));
    if (spec().head_dim != 0 || reader_.has("head_dim")) return {};
    if (spec().num_heads < 1 || spec().hidden_size % spec().num_heads != 0) {
      return invalid_argument(concat_message(reader_.where(), ": hidden_size ", spec().hidden_size,
                                             " does not divide evenly among ", spec().num_heads,
                                             " heads, and there is no head_dim"));
    }
    spec().head_dim = spec().hidden_size / spec().num_heads;
    return {};
  }

  Status read_biases() {
    ENCORE_RETURN_IF_ERROR(reader_.read("tie_word_embeddings", &spec().tied_embeddings));
    const std::string_view type = architecture_->model_type;
    if (type == "qwen2") {
      spec().qkv_bias = true;
    } else if (type != "mistral") {
      ENCORE_RETURN_IF_ERROR(reader_.read("attention_bias", &spec().qkv_bias));
      spec().attention_output_bias = spec().qkv_bias;
    }
    if (type == "llama") ENCORE_RETURN_IF_ERROR(reader_.read("mlp_bias", &spec().mlp_bias));
    spec().qk_norm = type == "qwen3";
    return {};
  }

  // A window that some layer uses and that is shorter than the context changes results.
  Status refuse_sliding_window() {
    int64_t window = architecture_->default_sliding_window;
    if (reader_.has("sliding_window") || has_null("sliding_window")) window = 0;
    ENCORE_RETURN_IF_ERROR(reader_.read("sliding_window", &window));
    ENCORE_ASSIGN_OR_RETURN(const bool used, layers_use_window());
    if (!used || window <= 0 || window >= spec().max_context) return {};
    return unimplemented(
        concat_message(reader_.where(), " puts a sliding window of ", window,
                       " tokens in force in a context of ", spec().max_context,
                       " (max_position_embeddings); only full attention is supported, so set "
                       "max_position_embeddings to the window if shorter texts are enough"));
  }

  bool has_null(const char* key) const { return reader_.object().contains(key); }

  Result<bool> layers_use_window() {
    if (const Json* types = reader_.find("layer_types")) {
      const auto is_full = [](const Json& type) {
        return type.is_string() && type.get_ref<const std::string&>() == "full_attention";
      };
      return !types->is_array() || !std::all_of(types->begin(), types->end(), is_full);
    }
    if (architecture_->model_type == "llama") return false;
    if (architecture_->model_type == "mistral") return true;
    bool used = false;
    int64_t full_layers = 28;  // as in transformers: the layers before it see everything
    ENCORE_RETURN_IF_ERROR(reader_.read("use_sliding_window", &used));
    ENCORE_RETURN_IF_ERROR(reader_.read("max_window_layers", &full_layers));
    return used && full_layers < spec().num_layers;
  }

  JsonReader reader_;
  const Architecture* architecture_ = nullptr;
  HfConfig result_;
};

}  // namespace

Result<HfConfig> read_hf_config(std::string_view text, const std::string& path) {
  const std::string where = "file " + printable(path);
  ENCORE_ASSIGN_OR_RETURN(const Json config, parse_json_object(text, where));
  return ConfigReader(config, where).read();
}

}  // namespace encore
