// Rotation and attention as a model's layers have them, over made-up contexts: what stands between
// the products of a layer when those are timed in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "encore/lowering/ops.h"
#include "encore/model_spec.h"
#include "encore/status.h"
#include "kernels/gpu/device_traits.h"
#include "memory.h"
#include "step_attention.h"
#include "weights.h"

namespace encore::gpu {

// Used by one thread, with the device current.
class TimedAttention {
 public:
  // Contexts for steps of up to max_rows rows in up to max_layers layers, one after another. The
  // account outlives it. Errors: kOutOfMemory.
  static Result<std::unique_ptr<TimedAttention>> create(const ModelSpec& spec,
                                                        const DeviceTraits& device,
                                                        int32_t max_rows, size_t max_layers,
                                                        MemoryAccount& account, void* stream);

  // Prepares steps of so many rows, at most max_rows and 1024: that many requests with a token each
  // and 1024 in the cache, whose pages are the same (a cache as large as theirs would be is not
  // wanted), or one request that brings all of them. Waits for the stream.
  Status plan(int32_t rows, bool decode);
  // Enqueues a layer of the last plan. qkv [rows, (num_heads + 2 num_kv_heads) * head_dim] and
  // y [rows, num_heads * head_dim] are bf16.
  Status run(size_t layer, void* qkv, void* y);

 private:
  TimedAttention(const ModelSpec& spec, const DeviceTraits& device, MemoryAccount& account,
                 void* stream)
      : spec_(spec), device_(device), account_(account), stream_(stream) {}
  Status allocate(int32_t max_rows, size_t max_layers);
  StepAttention step_attention() const;
  lowering::AttentionLayer layer(size_t index);

  ModelSpec spec_;
  DeviceTraits device_;
  MemoryAccount& account_;
  void* stream_;
  lowering::StepInputs step_;  // in `numbers_`
  int32_t* slots_ = nullptr;   // likewise
  KvDescription kv_;
  RopeWeight rope_;    // angles of zero
  VectorWeight norm_;  // of q and k alike
  std::unique_ptr<lowering::DeviceMemoryBlock> numbers_;
  std::unique_ptr<lowering::DeviceMemoryBlock> cos_sin_;
  std::unique_ptr<lowering::DeviceMemoryBlock> norm_weight_;
  std::unique_ptr<lowering::DeviceMemoryBlock> pages_;  // [max_layers, kPages]
  std::unique_ptr<lowering::DeviceMemoryBlock> workspace_;
};

}  // namespace encore::gpu
