#include "random_model.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "weight_codec.h"

namespace encore::check {
namespace {

// Of a linear: the standard deviation of its output for inputs of deviation 1. A little above 1, so
// that attention scores differ enough for a wrong position to show.
constexpr double kGain = 1.5;
constexpr double kNormDeviation = 0.2;
constexpr double kBiasDeviation = 0.5;
constexpr double kRopeBase = 10000.0;

// SplitMix64 (Steele, Lea and Flood 2014): the standard library's distributions differ from one
// library to the next.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t value = state_;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
  }
  // Uniform in (0, 1).
  double uniform() { return (static_cast<double>(next() >> 12U) + 0.5) * 0x1p-52; }
  // Box and Muller 1958.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  uint64_t state_;
};

uint64_t hash(std::string_view text, uint64_t seed) {
  uint64_t value = 14695981039346656037ULL ^ seed;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  return value;
}

class Builder {
 public:
  Builder(MemoryWeights& weights, uint64_t seed, DType dtype)
      : weights_(weights), seed_(seed), dtype_(dtype) {}

  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    const double deviation = kGain / std::sqrt(static_cast<double>(columns));
    fill(name + ".weight", dtype_, {rows, columns}, 0.0, deviation);
  }
  void norm(const std::string& name, int64_t size) {
    fill(name + ".weight", vector_dtype(), {size}, 1.0, kNormDeviation);
  }
  void linear(const std::string& name, int64_t rows, int64_t columns, bool bias) {
    matrix(name, rows, columns);
    if (bias) fill(name + ".bias", vector_dtype(), {rows}, 0.0, kBiasDeviation);
  }

 private:
  DType vector_dtype() const { return is_quantised(dtype_) ? DType::kF32 : dtype_; }

  void fill(const std::string& name, DType dtype, std::vector<int64_t> shape, double mean,
            double deviation) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    Random random(hash(name, seed_));
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(mean + deviation * random.normal());
    weights_.add(name, dtype, std::move(shape), values);
  }

  MemoryWeights& weights_;
  uint64_t seed_;
  DType dtype_;
};

void override_size(int64_t& size, int64_t value) {
  if (value > 0) size = value;
}

// Heads of sizes that real models have, since a device may take no others. rms_norm_eps is larger
// than theirs in two families, so that leaving it out shows.
ModelSpec family_spec(Family family) {
  ModelSpec spec;
  spec.architecture = family_name(family);
  spec.vocab_size = 300;
  spec.hidden_size = 64;
  spec.intermediate_size = 160;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.max_context = 1024;
  switch (family) {
    case Family::kLlama:
      break;
    case Family::kMistral:
      spec.num_layers = 3;
      spec.num_heads = 8;
      spec.rms_norm_eps = 0.02F;
      break;
    case Family::kQwen2:
      spec.num_kv_heads = 1;
      spec.qkv_bias = true;
      spec.tied_embeddings = true;
      spec.rms_norm_eps = 1e-6F;
      break;
    case Family::kQwen3:
      spec.head_dim = 128;
      spec.qk_norm = true;
      spec.rms_norm_eps = 0.05F;
      break;
  }
  return spec;
}

ModelSpec make_spec(Family family, const ModelOverrides& overrides) {
  ModelSpec spec = family_spec(family);
  spec.name = "random " + spec.architecture;
  override_size(spec.vocab_size, overrides.vocab_size);
  override_size(spec.hidden_size, overrides.hidden_size);
  override_size(spec.intermediate_size, overrides.intermediate_size);
  override_size(spec.num_layers, overrides.num_layers);
  override_size(spec.num_heads, overrides.num_heads);
  override_size(spec.num_kv_heads, overrides.num_kv_heads);
  override_size(spec.head_dim, overrides.head_dim);
  override_size(spec.max_context, overrides.max_context);
  spec.tied_embeddings = overrides.tied_embeddings.value_or(spec.tied_embeddings);
  spec.rope.style = overrides.rope_style.value_or(spec.rope.style);
  spec.rope.attention_scale = overrides.attention_scale.value_or(spec.rope.attention_scale);
  for (int64_t pair = 0; pair < spec.head_dim / 2; ++pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(spec.head_dim);
    spec.rope.inv_freq.push_back(static_cast<float>(std::pow(kRopeBase, exponent)));
  }
  return spec;
}

void add_layer(Builder& builder, const ModelSpec& spec, const std::string& prefix) {
  builder.norm(prefix + "attention_norm", spec.hidden_size);
  builder.linear(prefix + "q", spec.q_size(), spec.hidden_size, spec.qkv_bias);
  builder.linear(prefix + "k", spec.kv_size(), spec.hidden_size, spec.qkv_bias);
  builder.linear(prefix + "v", spec.kv_size(), spec.hidden_size, spec.qkv_bias);
  if (spec.qk_norm) {
    builder.norm(prefix + "q_norm", spec.head_dim);
    builder.norm(prefix + "k_norm", spec.head_dim);
  }
  builder.linear(prefix + "o", spec.hidden_size, spec.q_size(), spec.attention_output_bias);
  builder.norm(prefix + "mlp_norm", spec.hidden_size);
  builder.linear(prefix + "gate", spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
  builder.linear(prefix + "up", spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
  builder.linear(prefix + "down", spec.hidden_size, spec.intermediate_size, spec.mlp_bias);
}

}  // namespace

std::string_view family_name(Family family) {
  switch (family) {
    case Family::kLlama:
      return "llama";
    case Family::kMistral:
      return "mistral";
    case Family::kQwen2:
      return "qwen2";
    case Family::kQwen3:
      return "qwen3";
  }
  return "unknown";
}

void MemoryWeights::add(std::string name, DType dtype, std::vector<int64_t> shape,
                        std::span<const float> values) {
  std::vector<std::byte> bytes = encode(dtype, values);
  infos_.push_back({std::move(name), dtype, std::move(shape), static_cast<int64_t>(bytes.size())});
  data_.push_back(std::move(bytes));
}

std::vector<float> MemoryWeights::values(std::string_view name) const {
  const auto index = static_cast<size_t>(find_weight(*this, name));
  return decode(infos_[index].dtype, data_[index]);
}

void MemoryWeights::set_values(std::string_view name, std::span<const float> values) {
  const auto index = static_cast<size_t>(find_weight(*this, name));
  data_[index] = encode(infos_[index].dtype, values);
}

Status MemoryWeights::read(size_t index, int64_t offset, std::span<std::byte> destination) const {
  const int64_t bytes = infos_[index].bytes;
  const auto count = static_cast<int64_t>(destination.size());
  if (offset < 0 || offset > bytes || count > bytes - offset) {
    return invalid_argument(std::to_string(count) + " bytes from byte " + std::to_string(offset) +
                            " on leave " + infos_[index].name + ", which has " +
                            std::to_string(bytes));
  }
  std::memcpy(destination.data(), data_[index].data() + offset, destination.size());
  return {};
}

RandomModel random_model(Family family, uint64_t seed, DType weights_dtype,
                         const ModelOverrides& overrides) {
  RandomModel model;
  model.spec = make_spec(family, overrides);
  model.weights = std::make_shared<MemoryWeights>(overrides.mappable);
  const ModelSpec& spec = model.spec;
  Builder builder(*model.weights, seed, weights_dtype);
  builder.matrix("embed", spec.vocab_size, spec.hidden_size);
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    add_layer(builder, spec, "layers." + std::to_string(layer) + ".");
  }
  builder.norm("norm", spec.hidden_size);
  if (!spec.tied_embeddings) builder.matrix("head", spec.vocab_size, spec.hidden_size);
  return model;
}

void poison_embedding(RandomModel& model, int32_t token) {
  std::vector<float> values = model.weights->values("embed.weight");
  const auto hidden_size = static_cast<size_t>(model.spec.hidden_size);
  for (size_t i = 0; i < hidden_size; ++i) {
    values[static_cast<size_t>(token) * hidden_size + i] = NAN;
  }
  model.weights->set_values("embed.weight", values);
}

}  // namespace encore::check
