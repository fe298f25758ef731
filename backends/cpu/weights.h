// How the CPU keeps each kind of weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/lowering/ops.h"
#include "encore/weights.h"
#include "host_memory.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rope.h"
#include "thread_team.h"

namespace encore::cpu {

struct LinearWeight final : lowering::Weight {
  std::vector<kernels::LinearPart> parts;  // y_column set
  std::vector<std::vector<float>> biases;
};

struct EmbeddingWeight final : lowering::Weight {
  kernels::WeightType type = kernels::WeightType::kF32;
  const std::byte* rows = nullptr;  // in the file's own layout
  int64_t row_bytes = 0;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
};

struct VectorWeight final : lowering::Weight {
  std::vector<float> values;
};

struct RopeWeight final : lowering::Weight {
  std::vector<float> inv_freq;
  float attention_scale = 1.0F;
  kernels::RopePairing pairing;
};

// Reads weights into the forms above: quantised linears are packed by the whole team, float ones
// and embeddings stay in the mapped file where there is one. Keeps the account of their bytes.
class WeightLoader {
 public:
  explicit WeightLoader(ThreadTeam& team) : team_(team) {}

  Result<std::unique_ptr<LinearWeight>> linear(const WeightSource& source,
                                               std::span<const lowering::LinearPart> parts);
  Result<std::unique_ptr<EmbeddingWeight>> embedding(const WeightSource& source, size_t index);
  Result<std::unique_ptr<VectorWeight>> vector(const WeightSource& source, size_t index);

  const ModelInfo& info() const { return info_; }
  // Distinct types of the linears, and the largest number of inputs: what sizes the workspace.
  const std::vector<kernels::WeightType>& linear_types() const { return linear_types_; }
  int64_t max_inputs() const { return max_inputs_; }

 private:
  Result<const std::byte*> in_place(const WeightSource& source, size_t index);
  Result<kernels::PackedWeight> pack(const WeightSource& source, size_t index);
  Result<std::vector<float>> floats(const WeightSource& source, size_t index);

  ThreadTeam& team_;
  WeightPool pool_;
  ModelInfo info_;
  std::vector<kernels::WeightType> linear_types_;
  int64_t max_inputs_ = 0;
};

}  // namespace encore::cpu
