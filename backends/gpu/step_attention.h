// Rotation, KV write and attention of a step, from the lowering's words to those of kernels/gpu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encore/lowering/ops.h"
#include "encore/model_spec.h"
#include "encore/status.h"
#include "kernels/gpu/attention.h"
#include "kernels/gpu/device_traits.h"
#include "kernels/gpu/kv_layout.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/rope.h"

namespace encore::gpu {

// A KV cache as ops see it: layer l's page p begins at pages + (l * num_pages + p) * page_bytes.
struct KvDescription {
  std::byte* pages = nullptr;
  int32_t num_pages = 0;  // the sink page included
  KvLayout layout;

  int64_t layer_bytes() const { return num_pages * layout.page_bytes(); }
};

KvLayout kv_layout(const ModelSpec& spec, int32_t page_size, Element element);
AttentionShape attention_shape(const ModelSpec& spec, const KvLayout& layout);
RopePairing rope_pairing(const ModelSpec& spec);
int32_t rotary_dim(const ModelSpec& spec);
// What attention's workspace takes for any step of such sizes.
int64_t attention_bytes(const AttentionShape& shape, int32_t max_tokens, int32_t max_requests,
                        const DeviceTraits& device);

// Layers' `kv` is a KvDescription, their weights are those of weights.h. Each call enqueues one
// kernel or a fixed few; the meaning is that of the ops of these names.
struct StepAttention {
  DeviceTraits device;
  Launch launch;
  // Scratch, which plan() fills for the step's layers.
  float* cos_sin = nullptr;   // [max_tokens, rotary_dim]
  int32_t* slots = nullptr;   // [max_tokens]
  void* workspace = nullptr;  // attention_bytes()

  Status plan(const lowering::AttentionLayer& layer, const lowering::StepInputs& step) const;
  Status rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                       const lowering::StepInputs& step) const;
  Status attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                   const lowering::StepInputs& step, lowering::Matrix y) const;
  // Whether rope_attention() serves; else it is the two above.
  bool has_rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                          const lowering::StepInputs& step) const;
  Status rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                        const lowering::StepInputs& step, lowering::Matrix y) const;

 private:
  AttentionBounds bounds(const lowering::StepInputs& step) const;
  RopeKvArgs rope_args(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                       const lowering::StepInputs& step) const;
  AttentionArgs attention_args(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                               const lowering::StepInputs& step, lowering::Matrix y) const;
};

}  // namespace encore::gpu
