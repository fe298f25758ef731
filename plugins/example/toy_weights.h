// Weights on the toy: copied into its memory once, in the form that its kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "encore/backend.h"
#include "encore/lowering/ops.h"
#include "encore/weights.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/rope.h"
#include "toy_memory.h"

namespace acme {

namespace kernels = encore::kernels;
using DeviceArray = std::unique_ptr<lowering::DeviceMemoryBlock>;

// The addresses in all of these are device addresses.
struct LinearWeight final : lowering::Weight {
  std::vector<kernels::LinearPart> parts;
  std::vector<DeviceArray> arrays;  // what the parts point to
};

struct EmbeddingWeight final : lowering::Weight {
  kernels::WeightType type{};
  DeviceArray rows;  // as in the file
  int64_t row_bytes = 0;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
};

struct VectorWeight final : lowering::Weight {
  DeviceArray values;  // f32
};

struct RopeWeight final : lowering::Weight {
  DeviceArray inv_freq;  // f32
  int32_t rotary_dim = 0;
  float attention_scale = 1.0F;
  kernels::RopePairing pairing{};
};

// Reads weights from the host's files. Errors of all loads: kOutOfMemory; the source's.
class WeightLoader {
 public:
  explicit WeightLoader(ToyMemory& memory) : memory_(memory) {}

  Result<std::unique_ptr<LinearWeight>> linear(const encore::WeightSource& source,
                                               std::span<const lowering::LinearPart> parts);
  Result<std::unique_ptr<EmbeddingWeight>> embedding(const encore::WeightSource& source,
                                                     size_t index);
  Result<std::unique_ptr<VectorWeight>> vector(const encore::WeightSource& source, size_t index);
  Result<std::unique_ptr<RopeWeight>> rope(const encore::RopeSpec& spec);

  const encore::ModelInfo& info() const { return info_; }
  // Of the linears so far: what sizes the kernels' workspace.
  const std::vector<kernels::WeightType>& linear_types() const { return linear_types_; }
  int64_t max_inputs() const { return max_inputs_; }

 private:
  Result<DeviceArray> upload(const void* host, int64_t bytes);
  Result<DeviceArray> upload_floats(const encore::WeightSource& source, size_t index);

  ToyMemory& memory_;
  encore::ModelInfo info_;
  std::vector<kernels::WeightType> linear_types_;
  int64_t max_inputs_ = 0;
};

}  // namespace acme
