#include "tiny_model.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace encore {
namespace {

uint16_t bf16_of(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U);
}

}  // namespace

ModelSpec tiny_spec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.name = "doctor's tiny model";
  spec.vocab_size = 256;
  spec.hidden_size = 64;
  spec.intermediate_size = 128;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.max_context = 256;
  for (int64_t i = 0; i < spec.head_dim / 2; ++i) {
    const auto exponent = -static_cast<float>(2 * i) / static_cast<float>(spec.head_dim);
    spec.rope.inv_freq.push_back(std::pow(10000.0F, exponent));
  }
  return spec;
}

TinyWeights::TinyWeights(const ModelSpec& spec) {
  matrix("embed", spec.vocab_size, spec.hidden_size);
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    add_layer(spec, std::string("layers.") + std::to_string(i));
  }
  norm("norm", spec.hidden_size);
  matrix("head", spec.vocab_size, spec.hidden_size);
}

void TinyWeights::add_layer(const ModelSpec& spec, const std::string& prefix) {
  norm(prefix + ".attention_norm", spec.hidden_size);
  matrix(prefix + ".q", spec.q_size(), spec.hidden_size);
  matrix(prefix + ".k", spec.kv_size(), spec.hidden_size);
  matrix(prefix + ".v", spec.kv_size(), spec.hidden_size);
  matrix(prefix + ".o", spec.hidden_size, spec.q_size());
  norm(prefix + ".mlp_norm", spec.hidden_size);
  matrix(prefix + ".gate", spec.intermediate_size, spec.hidden_size);
  matrix(prefix + ".up", spec.intermediate_size, spec.hidden_size);
  matrix(prefix + ".down", spec.hidden_size, spec.intermediate_size);
}

void TinyWeights::matrix(const std::string& name, int64_t rows, int64_t columns) {
  add(name + ".weight", {rows, columns}, 0.0F, 0.35F);
}

void TinyWeights::norm(const std::string& name, int64_t size) {
  add(name + ".weight", {size}, 1.0F, 0.25F);
}

void TinyWeights::add(const std::string& name, std::vector<int64_t> shape, float mean,
                      float spread) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (uint16_t& value : values) value = bf16_of(mean + spread * next());
  infos_.push_back({name, DType::kBF16, std::move(shape), 2 * count});
  data_.push_back(std::move(values));
}

// From -1 to 1. Knuth's 64-bit linear congruential generator.
float TinyWeights::next() {
  random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<float>(static_cast<int32_t>(random_ >> 32U)) * 0x1p-31F;
}

Status TinyWeights::read(size_t index, int64_t offset, std::span<std::byte> destination) const {
  const WeightInfo& info = infos_[index];
  if (offset < 0 || offset > info.bytes ||
      static_cast<int64_t>(destination.size()) > info.bytes - offset) {
    return invalid_argument(std::to_string(destination.size()) + " bytes from " +
                            std::to_string(offset) + " on leave " + info.name + ", which has " +
                            std::to_string(info.bytes));
  }
  std::memcpy(destination.data(), map(index) + offset, destination.size());
  return {};
}

const std::byte* TinyWeights::map(size_t index) const {
  return reinterpret_cast<const std::byte*>(data_[index].data());
}

void TinyWeights::release(size_t /*index*/) const {}

}  // namespace encore
