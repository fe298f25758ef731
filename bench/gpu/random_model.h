// Models of real widths with random weights that exist in memory only: for speed, not for sense.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "encore/model_spec.h"
#include "encore/weights.h"

namespace encore::bench {

// The published configurations of these models; `layers` overrides their number if positive.
inline std::optional<ModelSpec> model_spec(std::string_view shape, int64_t layers = 0) {
  ModelSpec spec;
  spec.name = shape;
  spec.architecture = "llama";
  spec.vocab_size = 128256;
  spec.num_kv_heads = 8;
  spec.num_heads = 32;
  spec.max_context = 131072;
  if (shape == "llama-3.1-8b") {
    spec.hidden_size = 4096;
    spec.intermediate_size = 14336;
    spec.num_layers = 32;
    spec.head_dim = 128;
  } else if (shape == "llama-3.2-1b") {
    spec.hidden_size = 2048;
    spec.intermediate_size = 8192;
    spec.num_layers = 16;
    spec.head_dim = 64;
    spec.tied_embeddings = true;
  } else {
    return std::nullopt;
  }
  if (layers > 0) spec.num_layers = layers;
  for (int64_t i = 0; i < spec.head_dim / 2; ++i) {
    spec.rope.inv_freq.push_back(static_cast<float>(
        std::pow(500000.0, -2.0 * static_cast<double>(i) / static_cast<double>(spec.head_dim))));
  }
  return spec;
}

// bf16 weights of a model: norms are 1, matrices are cut from one block of normal values. Any
// thread.
class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(const ModelSpec& spec) : block_(kBlockElements) {
    std::mt19937 engine(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (size_t i = 0; i < kDrawn; ++i) block_[i] = bf16(normal(engine));
    for (size_t i = kDrawn; i < kBlockElements; ++i) block_[i] = block_[i - kDrawn];
    add("embed.weight", {spec.vocab_size, spec.hidden_size});
    for (int64_t i = 0; i < spec.num_layers; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      add(layer + "attention_norm.weight", {spec.hidden_size});
      add(layer + "q.weight", {spec.q_size(), spec.hidden_size});
      add(layer + "k.weight", {spec.kv_size(), spec.hidden_size});
      add(layer + "v.weight", {spec.kv_size(), spec.hidden_size});
      add(layer + "o.weight", {spec.hidden_size, spec.q_size()});
      add(layer + "mlp_norm.weight", {spec.hidden_size});
      add(layer + "gate.weight", {spec.intermediate_size, spec.hidden_size});
      add(layer + "up.weight", {spec.intermediate_size, spec.hidden_size});
      add(layer + "down.weight", {spec.hidden_size, spec.intermediate_size});
    }
    add("norm.weight", {spec.hidden_size});
    if (!spec.tied_embeddings) add("head.weight", {spec.vocab_size, spec.hidden_size});
  }

  std::span<const WeightInfo> weights() const override { return infos_; }
  const std::byte* map(size_t) const override { return nullptr; }
  void release(size_t) const override {}

  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override {
    if (infos_[index].shape.size() == 1) {
      auto* values = reinterpret_cast<uint16_t*>(destination.data());
      std::fill(values, values + destination.size() / 2, bf16(1.0F));
      return {};
    }
    const auto* block = reinterpret_cast<const std::byte*>(block_.data());
    const size_t block_bytes = block_.size() * 2;
    // Different weights start at different places.
    size_t from = (static_cast<size_t>(offset) + index * 1000003 * 16) % block_bytes;
    while (!destination.empty()) {
      const size_t count = std::min(destination.size(), block_bytes - from);
      std::memcpy(destination.data(), block + from, count);
      destination = destination.subspan(count);
      from = 0;
    }
    return {};
  }

 private:
  static constexpr size_t kDrawn = size_t{4} << 20;
  static constexpr size_t kBlockElements = size_t{32} << 20;

  static uint16_t bf16(float value) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
  }
  void add(const std::string& name, std::vector<int64_t> shape) {
    int64_t bytes = 2;
    for (const int64_t size : shape) bytes *= size;
    infos_.push_back({name, DType::kBF16, std::move(shape), bytes});
  }

  std::vector<WeightInfo> infos_;
  std::vector<uint16_t> block_;
};

}  // namespace encore::bench
