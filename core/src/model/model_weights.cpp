#include "model/model_weights.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "model/printable.h"

namespace encore {
namespace {

struct Part {
  const char* name;  // Encore's, without "layers.N."
  const char* hugging_face;
  const char* gguf;
};

constexpr Part kAttentionNorm = {"attention_norm", "input_layernorm", "attn_norm"};
constexpr Part kQ = {"q", "self_attn.q_proj", "attn_q"};
constexpr Part kK = {"k", "self_attn.k_proj", "attn_k"};
constexpr Part kV = {"v", "self_attn.v_proj", "attn_v"};
constexpr Part kO = {"o", "self_attn.o_proj", "attn_output"};
constexpr Part kQNorm = {"q_norm", "self_attn.q_norm", "attn_q_norm"};
constexpr Part kKNorm = {"k_norm", "self_attn.k_norm", "attn_k_norm"};
constexpr Part kMlpNorm = {"mlp_norm", "post_attention_layernorm", "ffn_norm"};
constexpr Part kGate = {"gate", "mlp.gate_proj", "ffn_gate"};
constexpr Part kUp = {"up", "mlp.up_proj", "ffn_up"};
constexpr Part kDown = {"down", "mlp.down_proj", "ffn_down"};
constexpr Part kEmbed = {"embed", "model.embed_tokens", "token_embd"};
constexpr Part kNorm = {"norm", "model.norm", "output_norm"};
constexpr Part kHead = {"head", "lm_head", "output"};

// A mapping's tensors, in Encore's names. See WeightSource.
class FileWeights final : public WeightSource {
 public:
  explicit FileWeights(std::vector<std::unique_ptr<MappedFile>> files) : files_(std::move(files)) {}

  void add(WeightInfo info, const StoredTensor& tensor) {
    places_.push_back({tensor.file, tensor.offset});
    weights_.push_back(std::move(info));
  }

  std::span<const WeightInfo> weights() const override { return weights_; }

  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    if (index >= weights_.size()) {
      return invalid_argument(
          concat_message("there is no weight ", index, "; the model has ", weights_.size()));
    }
    const WeightInfo& info = weights_[index];
    if (offset < 0 || offset > info.bytes ||
        destination.size() > static_cast<uint64_t>(info.bytes - offset)) {
      return invalid_argument(concat_message("weight ", info.name, ": ", destination.size(),
                                             " bytes from ", offset, " on leave its ", info.bytes,
                                             " bytes"));
    }
    const Place& place = places_[index];
    return files_[place.file]->read(place.offset + offset, destination);
  }

  const std::byte* map(size_t index) const override {
    if (index >= weights_.size()) return nullptr;
    const Place& place = places_[index];
    // Mappings start on a page, so the file offset decides the address's alignment.
    if (place.offset % alignment(weights_[index].dtype) != 0) return nullptr;
    return files_[place.file]->data() + place.offset;
  }

  void release(size_t index) const override {
    if (index >= weights_.size()) return;
    files_[places_[index].file]->drop_pages(places_[index].offset, weights_[index].bytes);
  }

 private:
  struct Place {
    size_t file;
    int64_t offset;
  };

  static int64_t alignment(DType dtype) {
    return is_quantised(dtype) ? 2 : dtype_info(dtype).block_bytes;  // their scales are 16 bits
  }

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<WeightInfo> weights_;
  std::vector<Place> places_;
};

class Binder {
 public:
  Binder(const ModelSpec& spec, TensorStore store, NameStyle style)
      : spec_(spec),
        style_(style),
        tensors_(std::move(store.tensors)),
        first_file_(store.files.empty() ? std::string() : store.files.front()->path()) {
    for (const auto& file : store.files) paths_.push_back(file->path());
    weights_ = std::make_unique<FileWeights>(std::move(store.files));
  }

  Result<std::unique_ptr<WeightSource>> bind(std::vector<std::string>& notes) {
    const int64_t hidden = spec_.hidden_size;
    ENCORE_RETURN_IF_ERROR(add("", kEmbed, "weight", {spec_.vocab_size, hidden}));
    for (int64_t layer = 0; layer < spec_.num_layers; ++layer) {
      layer_ = layer;
      ENCORE_RETURN_IF_ERROR(add_attention());
      ENCORE_RETURN_IF_ERROR(add_mlp());
    }
    layer_ = -1;
    ENCORE_RETURN_IF_ERROR(add("", kNorm, "weight", {hidden}));
    if (!spec_.tied_embeddings) {
      ENCORE_RETURN_IF_ERROR(add("", kHead, "weight", {spec_.vocab_size, hidden}));
    }
    ENCORE_RETURN_IF_ERROR(check_unused(notes));
    return std::unique_ptr<WeightSource>(std::move(weights_));
  }

 private:
  Status add_attention() {
    const int64_t hidden = spec_.hidden_size;
    ENCORE_RETURN_IF_ERROR(add_layer(kAttentionNorm, {hidden}, false));
    ENCORE_RETURN_IF_ERROR(add_layer(kQ, {spec_.q_size(), hidden}, spec_.qkv_bias));
    ENCORE_RETURN_IF_ERROR(add_layer(kK, {spec_.kv_size(), hidden}, spec_.qkv_bias));
    ENCORE_RETURN_IF_ERROR(add_layer(kV, {spec_.kv_size(), hidden}, spec_.qkv_bias));
    if (spec_.qk_norm) {
      ENCORE_RETURN_IF_ERROR(add_layer(kQNorm, {spec_.head_dim}, false));
      ENCORE_RETURN_IF_ERROR(add_layer(kKNorm, {spec_.head_dim}, false));
    }
    return add_layer(kO, {hidden, spec_.q_size()}, spec_.attention_output_bias);
  }

  Status add_mlp() {
    const int64_t hidden = spec_.hidden_size;
    const int64_t inner = spec_.intermediate_size;
    ENCORE_RETURN_IF_ERROR(add_layer(kMlpNorm, {hidden}, false));
    ENCORE_RETURN_IF_ERROR(add_layer(kGate, {inner, hidden}, spec_.mlp_bias));
    ENCORE_RETURN_IF_ERROR(add_layer(kUp, {inner, hidden}, spec_.mlp_bias));
    return add_layer(kDown, {hidden, inner}, spec_.mlp_bias);
  }

  Status add_layer(const Part& part, std::vector<int64_t> shape, bool bias) {
    const std::string prefix = "layers." + std::to_string(layer_) + ".";
    const int64_t rows = shape.front();
    ENCORE_RETURN_IF_ERROR(add(prefix, part, "weight", std::move(shape)));
    return bias ? add(prefix, part, "bias", {rows}) : Status();
  }

  std::string stored_name(const Part& part, const std::string& suffix) const {
    std::string name;
    if (layer_ >= 0) {
      name = (style_ == NameStyle::kGguf ? "blk." : "model.layers.") + std::to_string(layer_) + ".";
    }
    name += style_ == NameStyle::kGguf ? part.gguf : part.hugging_face;
    return name + "." + suffix;
  }

  Status add(const std::string& prefix, const Part& part, const std::string& suffix,
             std::vector<int64_t> shape) {
    const std::string stored = stored_name(part, suffix);
    const auto found = tensors_.find(stored);
    if (found == tensors_.end()) {
      const std::string others =
          paths_.size() > 1 ? concat_message(" and its ", paths_.size() - 1, " other parts") : "";
      return not_found(concat_message("tensor ", printable(stored), " of shape ",
                                      printable_shape(shape), " is missing from file ",
                                      printable(first_file_), others));
    }
    const StoredTensor& tensor = found->second;
    const std::string who =
        concat_message("tensor ", printable(stored), " in file ", printable(paths_[tensor.file]));
    if (tensor.shape != shape) {
      return data_loss(concat_message(who, " has shape ", printable_shape(tensor.shape),
                                      "; expected ", printable_shape(shape)));
    }
    if (tensor.dtype == DType::kInvalid) {
      return unimplemented(concat_message(who, " has type ", printable(tensor.type_name),
                                          "; supported: f32, f16, bf16"));
    }
    if (shape.size() == 1 && is_quantised(tensor.dtype)) {
      return unimplemented(concat_message(who, " has type ", tensor.type_name,
                                          "; norms and biases must be f32, f16 or bf16"));
    }
    WeightInfo info;
    info.name = prefix + part.name + "." + suffix;
    info.dtype = tensor.dtype;
    info.shape = std::move(shape);
    info.bytes = tensor.bytes;
    weights_->add(std::move(info), tensor);
    used_.insert(found->first);
    return {};
  }

  // The layer a file tensor belongs to, or -1.
  int64_t layer_of(std::string_view name) const {
    const std::string_view prefix = style_ == NameStyle::kGguf ? "blk." : "model.layers.";
    if (name.substr(0, prefix.size()) != prefix) return -1;
    name.remove_prefix(prefix.size());
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
  }

  // Tables that old checkpoints carry and that follow from the configuration.
  static bool is_derived(std::string_view name) {
    return name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight";
  }

  Status check_unused(std::vector<std::string>& notes) const {
    int64_t others = 0;
    std::string example;
    for (const auto& [name, tensor] : tensors_) {
      if (used_.find(name) != used_.end() || is_derived(name)) continue;
      if (name == "lm_head.weight" && spec_.tied_embeddings) {
        notes.push_back(concat_message("file ", printable(paths_[tensor.file]), ": tensor ",
                                       printable(name),
                                       " is ignored, because the configuration ties the head to "
                                       "the embedding"));
        continue;
      }
      const int64_t layer = layer_of(name);
      if (layer >= 0 && layer < spec_.num_layers) {
        return unimplemented(concat_message(
            "tensor ", printable(name), " in file ", printable(paths_[tensor.file]),
            " has no place in a ", printable(spec_.architecture),
            " model as configured; leaving it out would change the model's results"));
      }
      if (others++ == 0) example = name;
    }
    if (others > 0) {
      notes.push_back(concat_message("file ", printable(first_file_), ": ", others,
                                     " tensors are not used, ", printable(example),
                                     " for example"));
    }
    return {};
  }

  const ModelSpec& spec_;
  NameStyle style_;
  TensorTable tensors_;
  std::string first_file_;
  std::vector<std::string> paths_;
  std::unique_ptr<FileWeights> weights_;
  std::set<std::string_view> used_;  // keys of tensors_
  int64_t layer_ = -1;               // being bound; -1 outside the layers
};

}  // namespace

Result<std::unique_ptr<WeightSource>> bind_weights(const ModelSpec& spec, TensorStore store,
                                                   NameStyle style,
                                                   std::vector<std::string>& notes) {
  return Binder(spec, std::move(store), style).bind(notes);
}

}  // namespace encore
