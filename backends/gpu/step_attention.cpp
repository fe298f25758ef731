#include "step_attention.h"

#include <algorithm>
#include <cmath>

#include "gpu_status.h"
#include "weights.h"

namespace encore::gpu {
namespace {

const KvDescription& kv_of(const lowering::AttentionLayer& layer) {
  return *static_cast<const KvDescription*>(layer.kv);
}
const RopeWeight& rope_of(const lowering::AttentionLayer& layer) {
  return static_cast<const RopeWeight&>(*layer.rope);
}
const void* values_of(const lowering::Weight* weight) {
  return weight == nullptr ? nullptr : static_cast<const VectorWeight*>(weight)->values;
}
AttentionShape shape_of(const lowering::AttentionLayer& layer) {
  return attention_shape(*layer.spec, kv_of(layer).layout);
}
KvPages pages_of(const lowering::AttentionLayer& layer) {
  const KvDescription& kv = kv_of(layer);
  return {kv.pages + layer.layer * kv.layer_bytes(), kv.num_pages, kv.layout};
}
AttentionInputs inputs_of(const lowering::StepInputs& step) {
  return {step.num_requests, step.q_start, step.kv_len, step.page_start, step.page_ids};
}

}  // namespace

KvLayout kv_layout(const ModelSpec& spec, int32_t page_size, Element element) {
  return {element, static_cast<int32_t>(spec.num_kv_heads), static_cast<int32_t>(spec.head_dim),
          page_size};
}

AttentionShape attention_shape(const ModelSpec& spec, const KvLayout& layout) {
  return {static_cast<int32_t>(spec.num_heads), layout, Element::kBF16};
}

RopePairing rope_pairing(const ModelSpec& spec) {
  return spec.rope.style == RopeStyle::kHalfSplit ? RopePairing::kHalfSplit
                                                  : RopePairing::kAdjacentPairs;
}

int32_t rotary_dim(const ModelSpec& spec) {
  return static_cast<int32_t>(2 * spec.rope.inv_freq.size());
}

int64_t attention_bytes(const AttentionShape& shape, int32_t max_tokens, int32_t max_requests,
                        const DeviceTraits& device) {
  size_t bytes = 0;
  for (const bool decode_only : {false, true}) {
    const AttentionBounds bounds{max_tokens, max_requests, decode_only, device.num_processors};
    bytes =
        std::max(bytes, attention_workspace_bytes(shape, bounds, attention_path(shape, device)));
  }
  return static_cast<int64_t>(bytes);
}

AttentionBounds StepAttention::bounds(const lowering::StepInputs& step) const {
  return {step.max_tokens, step.max_requests, step.decode_only, device.num_processors};
}

RopeKvArgs StepAttention::rope_args(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                                    const lowering::StepInputs& step) const {
  const RopeWeight& rope = rope_of(layer);
  RopeKvArgs args;
  args.tokens = {step.num_tokens, qkv.rows};
  args.qkv = qkv.data;
  args.qkv_stride = qkv.columns;
  args.q_norm_weight = values_of(layer.q_norm);
  args.k_norm_weight = values_of(layer.k_norm);
  args.norm_eps = layer.spec->rms_norm_eps;
  args.pairing = rope.pairing;
  args.num_heads = static_cast<int32_t>(layer.spec->num_heads);
  args.rotary_dim = rope.rotary_dim;
  args.cos_sin = cos_sin;
  args.slots = slots;
  args.kv = pages_of(layer);
  return args;
}

AttentionArgs StepAttention::attention_args(lowering::Matrix qkv,
                                            const lowering::AttentionLayer& layer,
                                            const lowering::StepInputs& step,
                                            lowering::Matrix y) const {
  AttentionArgs args;
  args.inputs = inputs_of(step);
  args.kv = pages_of(layer);
  args.q = qkv.data;
  args.q_stride = qkv.columns;
  args.y = y.data;
  args.y_stride = y.columns;
  args.scale = 1.0F / std::sqrt(static_cast<float>(layer.spec->head_dim));
  args.workspace = workspace;
  return args;
}

Status StepAttention::plan(const lowering::AttentionLayer& layer,
                           const lowering::StepInputs& step) const {
  const KvDescription& kv = kv_of(layer);
  const RopeWeight& rope = rope_of(layer);
  StepTablesArgs args;
  args.tokens = {step.num_tokens, step.max_tokens};
  args.positions = step.positions;
  args.token_request = step.token_request;
  args.page_start = step.page_start;
  args.page_ids = step.page_ids;
  args.inv_freq = reinterpret_cast<const float*>(rope.memory->data());
  args.attention_scale = rope.attention_scale;
  args.rotary_dim = rope.rotary_dim;
  args.page_size = kv.layout.page_size;
  args.num_pages = kv.num_pages;
  args.cos_sin = cos_sin;
  args.slots = slots;
  ENCORE_RETURN_IF_ERROR(launch_status(step_tables(args, launch), "step_tables"));
  const AttentionShape shape = shape_of(layer);
  return launch_status(attention_plan(shape, bounds(step), attention_path(shape, device),
                                      inputs_of(step), workspace, launch),
                       "attention_plan");
}

Status StepAttention::rope_kv_write(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                                    const lowering::StepInputs& step) const {
  return launch_status(gpu::rope_kv_write(rope_args(qkv, layer, step), launch), "rope_kv_write");
}

Status StepAttention::attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                                const lowering::StepInputs& step, lowering::Matrix y) const {
  const AttentionShape shape = shape_of(layer);
  return launch_status(attention_run(shape, bounds(step), attention_path(shape, device),
                                     attention_args(qkv, layer, step, y), launch),
                       "attention");
}

bool StepAttention::has_rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                                       const lowering::StepInputs& step) const {
  const AttentionShape shape = shape_of(layer);
  return rope_attention_serves(shape, bounds(step), attention_path(shape, device),
                               rope_args(qkv, layer, step));
}

Status StepAttention::rope_attention(lowering::Matrix qkv, const lowering::AttentionLayer& layer,
                                     const lowering::StepInputs& step, lowering::Matrix y) const {
  const AttentionShape shape = shape_of(layer);
  return launch_status(
      rope_attention_run(shape, bounds(step), attention_path(shape, device),
                         rope_args(qkv, layer, step), attention_args(qkv, layer, step, y), launch),
      "rope_attention");
}

}  // namespace encore::gpu
