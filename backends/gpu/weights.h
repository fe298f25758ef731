// Weights as a GPU keeps them: bf16, in one slab of device memory.
#pragma once

#include <cstdint>
#include <memory>

#include "encore/lowering/device.h"
#include "encore/lowering/ops.h"
#include "kernels/gpu/rope.h"

namespace encore::gpu {

// Matrices of one class are interchangeable for timing: same sizes, same epilogue.
struct LinearClass {
  int32_t n = 0;  // outputs, all parts together
  int32_t k = 0;
  lowering::Epilogue epilogue = lowering::Epilogue::kNone;
  bool bias = false;

  friend bool operator==(const LinearClass&, const LinearClass&) = default;
};

struct LinearWeight final : lowering::Weight {
  LinearClass shape;
  const void* w = nullptr;     // [n, k] bf16
  const void* bias = nullptr;  // [n] bf16, or null
  size_t class_index = 0;      // among the classes that the ops know
};

struct EmbeddingWeight final : lowering::Weight {
  const void* table = nullptr;  // [vocab_size, hidden_size] bf16
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
};

struct VectorWeight final : lowering::Weight {
  const void* values = nullptr;  // bf16
};

struct RopeWeight final : lowering::Weight {
  std::unique_ptr<lowering::DeviceMemoryBlock> memory;
  int32_t rotary_dim = 0;
  float attention_scale = 1.0F;
  RopePairing pairing = RopePairing::kHalfSplit;
};

}  // namespace encore::gpu
