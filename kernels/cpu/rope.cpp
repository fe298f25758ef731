#include "kernels/cpu/rope.h"

#include <algorithm>
#include <cmath>

#include "built_level.h"
#include "half.h"
#include "rope_levels.h"

namespace encore::kernels {
namespace {

void write_angles(const StepTablesArgs& args, int32_t token) {
  const int32_t pairs = args.rotary_dim / 2;
  const double position = args.positions[token];
  float* cosines = args.cos_sin + static_cast<int64_t>(token) * args.rotary_dim;
  float* sines = cosines + pairs;
  for (int32_t i = 0; i < pairs; ++i) {
    const double angle = position * static_cast<double>(args.inv_freq[i]);
    cosines[i] = static_cast<float>(std::cos(angle) * args.attention_scale);
    sines[i] = static_cast<float>(std::sin(angle) * args.attention_scale);
  }
}

// The slot of `token`, a token of `request`, or -1 if its page is not there.
int32_t slot_of(const StepTablesArgs& args, int32_t request, int32_t token) {
  const int32_t position = args.positions[token];
  if (position < 0) return -1;
  const int32_t index = args.page_start[request] + position / args.page_size;
  if (index >= args.page_start[request + 1]) return -1;
  const int32_t page = args.page_ids[index];
  if (page < 0 || page >= args.num_pages) return -1;
  return page * args.page_size + position % args.page_size;
}

// Norm (if weight is not null) and rotation of one head, x to y; x may be y.
void rotate_head(const RopeKvArgs& args, const float* x, const float* weight, const float* cos_sin,
                 float* y) {
  const int32_t head_dim = args.kv.layout.head_dim;
  float head[256];
  std::copy_n(x, head_dim, head);
  if (weight != nullptr) {
    double sum = 0.0;
    for (int32_t i = 0; i < head_dim; ++i) sum += static_cast<double>(head[i]) * head[i];
    const auto inverse = static_cast<float>(1.0 / std::sqrt(sum / head_dim + args.norm_eps));
    for (int32_t i = 0; i < head_dim; ++i) head[i] *= inverse * weight[i];
  }
  const int32_t pairs = args.rotary_dim / 2;
  const bool adjacent = args.pairing == RopePairing::kAdjacentPairs;
  for (int32_t i = 0; i < pairs; ++i) {
    const int32_t first = adjacent ? 2 * i : i;
    const int32_t second = adjacent ? 2 * i + 1 : i + pairs;
    const float cosine = cos_sin[i];
    const float sine = cos_sin[pairs + i];
    y[first] = head[first] * cosine - head[second] * sine;
    y[second] = head[second] * cosine + head[first] * sine;
  }
  std::copy(head + args.rotary_dim, head + head_dim, y + args.rotary_dim);
}

void store_element(WeightType type, std::byte* page, int64_t element, float value) {
  switch (type) {
    case WeightType::kF16:
      reinterpret_cast<uint16_t*>(page)[element] = f32_to_f16(value);
      return;
    case WeightType::kBF16:
      reinterpret_cast<uint16_t*>(page)[element] = f32_to_bf16(value);
      return;
    default:
      reinterpret_cast<float*>(page)[element] = value;
  }
}

void rope_kv_reference(const RopeKvArgs& args, const Worker& worker) {
  const KvLayout& layout = args.kv.layout;
  const int32_t head_dim = layout.head_dim;
  const int32_t group = args.num_heads / layout.num_kv_heads;
  const Share share = share_of(static_cast<int64_t>(*args.num_tokens) * layout.num_kv_heads,
                               worker.index, worker.count);
  for (int64_t unit = share.begin; unit < share.end; ++unit) {
    const int64_t token = unit / layout.num_kv_heads;
    const auto kv_head = static_cast<int32_t>(unit % layout.num_kv_heads);
    const float* row = args.qkv + token * args.qkv_stride;
    const float* cos_sin = args.cos_sin + token * args.rotary_dim;
    for (int32_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      rotate_head(args, row + h * head_dim, args.q_norm_weight, cos_sin,
                  args.q_out + token * args.q_out_stride + h * head_dim);
    }
    const int32_t slot = args.slots[token];
    if (slot < 0) continue;
    const float* k = row + (args.num_heads + kv_head) * head_dim;
    const float* v = k + layout.num_kv_heads * head_dim;
    float rotated[256];
    rotate_head(args, k, args.k_norm_weight, cos_sin, rotated);
    std::byte* page = args.kv.pages + slot / layout.page_size * args.kv.page_stride_bytes;
    const int32_t offset = slot % layout.page_size;
    for (int32_t d = 0; d < head_dim; ++d) {
      store_element(layout.type, page, layout.key_offset(kv_head, d, offset), rotated[d]);
      store_element(layout.type, page, layout.value_offset(kv_head, offset, d), v[d]);
    }
  }
}

}  // namespace

void step_tables(const StepTablesArgs& args, const Worker& worker) {
  const int32_t tokens = *args.num_tokens;
  int32_t request = -1;  // of `token`, once q_start has been passed
  const int32_t requests = *args.num_requests;
  const Share share = share_of(tokens, worker.index, worker.count);
  for (auto token = static_cast<int32_t>(share.begin); token < share.end; ++token) {
    write_angles(args, token);
    while (request + 1 < requests && args.q_start[request + 1] <= token) ++request;
    const bool inside = request >= 0 && token < args.q_start[request + 1];
    args.slots[token] = inside ? slot_of(args, request, token) : -1;
  }
}

RopeKvKernel rope_kv_kernel(IsaLevel level) {
  if constexpr (kBuiltLevel >= IsaLevel::kAvx512) {
    if (level >= IsaLevel::kAvx512) return rope_kv_avx512;
  }
  if constexpr (kBuiltLevel >= IsaLevel::kAvx2) {
    if (level >= IsaLevel::kAvx2) return rope_kv_avx2;
  }
  return rope_kv_reference;
}

}  // namespace encore::kernels
