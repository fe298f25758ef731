// Small models of random weights, in memory: what the kit runs on every plugin.
//
// Each weight is a function of the seed and its name alone, so two models that differ in one thing
// (a tied head, another RoPE style) share all other weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encore/dtype.h"
#include "encore/model_spec.h"
#include "encore/weights.h"

namespace encore::check {

enum class Family : int32_t { kLlama, kMistral, kQwen2, kQwen3 };
inline constexpr std::array kFamilies = {Family::kLlama, Family::kMistral, Family::kQwen2,
                                         Family::kQwen3};

std::string_view family_name(Family family);  // "llama", as in ModelSpec::architecture

// What differs from the family's small model; empty or zero: as the family has it.
struct ModelOverrides {
  std::optional<bool> tied_embeddings;
  std::optional<RopeStyle> rope_style;
  std::optional<float> attention_scale;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  // linears scale with it; heads do not
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_context = 0;
  bool mappable = true;  // false: map() gives null, and weights are to be read
};

// Weights held in memory. The const methods may be called from any thread.
class MemoryWeights final : public WeightSource {
 public:
  explicit MemoryWeights(bool mappable) : mappable_(mappable) {}

  // REQUIRES: `values` has as many elements as `shape`; rows are whole blocks of `dtype`.
  void add(std::string name, DType dtype, std::vector<int64_t> shape,
           std::span<const float> values);

  // A weight's values as stored, and new ones for it. REQUIRES: it exists; for the second, as many
  // values as it has. Not while a model uses the source.
  std::vector<float> values(std::string_view name) const;
  void set_values(std::string_view name, std::span<const float> values);

  std::span<const WeightInfo> weights() const override { return infos_; }
  Status read(size_t index, int64_t offset, std::span<std::byte> destination) const override;
  const std::byte* map(size_t index) const override {
    return mappable_ ? data_[index].data() : nullptr;
  }
  void release(size_t index) const override { static_cast<void>(index); }

 private:
  bool mappable_;
  std::vector<WeightInfo> infos_;
  std::vector<std::vector<std::byte>> data_;
};

struct RandomModel {
  ModelSpec spec;
  std::shared_ptr<MemoryWeights> weights;  // must outlive what was loaded from it
};

// Matrices are `weights_dtype` (f32, f16, bf16, q8_0, q4_0); norms and biases too, but f32 where
// matrices are quantised. Linears keep the size of what passes through, so logits spread over a few
// units and attention looks at several positions.
RandomModel random_model(Family family, uint64_t seed, DType weights_dtype,
                         const ModelOverrides& overrides = {});

// Makes every logit after `token` NaN: its embedding row is. REQUIRES: float weights.
void poison_embedding(RandomModel& model, int32_t token);

}  // namespace encore::check
