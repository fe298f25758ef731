// A model of random weights in memory.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "encore/model_spec.h"
#include "encore/weights.h"

namespace encore::testing {

// 4 heads of 32 over 2, though hidden_size / num_heads is 16, with Q/K norms (fault L4) and every
// bias there is. All sizes are multiples of 32 even for four ranks.
inline ModelSpec small_spec() {
  ModelSpec spec;
  spec.architecture = "qwen3";
  spec.vocab_size = 256;
  spec.hidden_size = 64;
  spec.intermediate_size = 128;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.max_context = 256;
  spec.rms_norm_eps = 1e-5F;
  for (int i = 0; i < 16; ++i) {
    spec.rope.inv_freq.push_back(std::pow(10000.0F, -static_cast<float>(i) / 16.0F));
  }
  spec.qkv_bias = true;
  spec.attention_output_bias = true;
  spec.mlp_bias = true;
  spec.qk_norm = true;
  return spec;
}

// Linears and embedding in `dtype` (f32 or q8_0), norms and biases in f32. Cannot be mapped unless
// `mappable`.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(const ModelSpec& spec, DType dtype, bool mappable = true)
      : engine_(7), dtype_(dtype), mappable_(mappable) {
    matrix("embed", spec.vocab_size, spec.hidden_size);
    for (int64_t i = 0; i < spec.num_layers; ++i) add_layer(spec, "layers." + std::to_string(i));
    norm("norm", spec.hidden_size);
    if (!spec.tied_embeddings) matrix("head", spec.vocab_size, spec.hidden_size);
  }

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    if (offset < 0 || offset + static_cast<int64_t>(destination.size()) > infos_[index].bytes) {
      return invalid_argument("the range leaves " + infos_[index].name);
    }
    std::memcpy(destination.data(), data_[index].data() + offset, destination.size());
    return {};
  }
  const std::byte* map(size_t index) const override {
    return mappable_ ? data_[index].data() : nullptr;
  }
  void release(size_t) const override {}

 private:
  void add_layer(const ModelSpec& spec, const std::string& prefix) {
    norm(prefix + ".attention_norm", spec.hidden_size);
    linear(prefix + ".q", spec.q_size(), spec.hidden_size, spec.qkv_bias);
    linear(prefix + ".k", spec.kv_size(), spec.hidden_size, spec.qkv_bias);
    linear(prefix + ".v", spec.kv_size(), spec.hidden_size, spec.qkv_bias);
    if (spec.qk_norm) {
      norm(prefix + ".q_norm", spec.head_dim);
      norm(prefix + ".k_norm", spec.head_dim);
    }
    linear(prefix + ".o", spec.hidden_size, spec.q_size(), spec.attention_output_bias);
    norm(prefix + ".mlp_norm", spec.hidden_size);
    linear(prefix + ".gate", spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
    linear(prefix + ".up", spec.intermediate_size, spec.hidden_size, spec.mlp_bias);
    linear(prefix + ".down", spec.hidden_size, spec.intermediate_size, spec.mlp_bias);
  }
  void linear(const std::string& name, int64_t rows, int64_t columns, bool bias) {
    matrix(name, rows, columns);
    if (bias) floats(name + ".bias", {rows}, 0.0F, 0.3F);
  }
  void norm(const std::string& name, int64_t size) { floats(name + ".weight", {size}, 1.0F, 0.2F); }
  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    if (dtype_ == DType::kF32) return floats(name + ".weight", {rows, columns}, 0.0F, 0.2F);
    const int64_t bytes = rows * row_bytes(dtype_, columns);
    std::vector<std::byte> data(static_cast<size_t>(bytes));
    constexpr int64_t kBlockBytes = 34;
    constexpr uint16_t kScale = 0x1800;  // 2^-9 as f16
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(engine_() & 0xFFU);
    for (size_t i = 0; i < data.size(); i += kBlockBytes) std::memcpy(&data[i], &kScale, 2);
    infos_.push_back({name + ".weight", dtype_, {rows, columns}, bytes});
    data_.push_back(std::move(data));
  }
  void floats(const std::string& name, std::vector<int64_t> shape, float mean, float deviation) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(engine_);
    std::vector<std::byte> data(values.size() * sizeof(float));
    std::memcpy(data.data(), values.data(), data.size());
    infos_.push_back({name, DType::kF32, std::move(shape), static_cast<int64_t>(data.size())});
    data_.push_back(std::move(data));
  }

  std::mt19937 engine_;
  DType dtype_;
  bool mappable_;
  std::vector<WeightInfo> infos_;
  std::vector<std::vector<std::byte>> data_;
};

}  // namespace encore::testing
