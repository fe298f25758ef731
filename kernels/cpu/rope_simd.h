// Rotation and the write of keys and values over a Vector. Include after its header.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rope_levels.h"

namespace encore::kernels {
namespace {

inline constexpr int32_t kMaxHeadDim = 256;

inline void normalise_head(const float* weight, float eps, int32_t head_dim, float* head) {
  using V = Vector;
  V::F sums = V::zero();
  for (int32_t i = 0; i < head_dim; i += V::kLanes) {
    const V::F x = V::load_first(head + i, std::min(V::kLanes, head_dim - i));
    sums = V::fma(x, x, sums);
  }
  const float inverse = 1.0F / std::sqrt(V::sum(sums) / static_cast<float>(head_dim) + eps);
  for (int32_t i = 0; i < head_dim; ++i) head[i] = head[i] * inverse * weight[i];
}

inline void rotate_halves(const float* cosines, const float* sines, int32_t pairs, float* head) {
  using V = Vector;
  for (int32_t i = 0; i < pairs; i += V::kLanes) {
    const int32_t n = std::min(V::kLanes, pairs - i);
    const V::F a = V::load_first(head + i, n);
    const V::F b = V::load_first(head + pairs + i, n);
    const V::F c = V::load_first(cosines + i, n);
    const V::F s = V::load_first(sines + i, n);
    V::store_first(head + i, n, V::fms(a, c, V::mul(b, s)));
    V::store_first(head + pairs + i, n, V::fma(b, c, V::mul(a, s)));
  }
}

inline void rotate_neighbours(const float* cosines, const float* sines, int32_t pairs,
                              float* head) {
  using V = Vector;
  int32_t i = 0;
  for (; 2 * i + V::kLanes <= 2 * pairs; i += V::kLanes / 2) {
    const V::F x = V::load(head + 2 * i);
    const V::F crossed = V::mul(V::swap_pairs(x), V::load_twice(sines + i));
    V::store(head + 2 * i, V::fma_subtract_add(x, V::load_twice(cosines + i), crossed));
  }
  for (; i < pairs; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = std::fma(a, cosines[i], -(b * sines[i]));
    head[2 * i + 1] = std::fma(b, cosines[i], a * sines[i]);
  }
}

// Norm (if weight is not null) and rotation of one head, x to y; x may be y.
inline void rotate_head(const RopeKvArgs& args, const float* x, const float* weight,
                        const float* cos_sin, float* y) {
  const int32_t head_dim = args.kv.layout.head_dim;
  const int32_t pairs = args.rotary_dim / 2;
  if (x != y) std::copy_n(x, head_dim, y);
  if (weight != nullptr) normalise_head(weight, args.norm_eps, head_dim, y);
  if (args.pairing == RopePairing::kHalfSplit) {
    rotate_halves(cos_sin, cos_sin + pairs, pairs, y);
  } else {
    rotate_neighbours(cos_sin, cos_sin + pairs, pairs, y);
  }
}

struct StoreF32 {
  using Element = float;
  static void store(float* p, Vector::F x) { Vector::store(p, x); }
};
struct StoreF16 {
  using Element = uint16_t;
  static void store(uint16_t* p, Vector::F x) { Vector::store_f16(p, x); }
};
struct StoreBf16 {
  using Element = uint16_t;
  static void store(uint16_t* p, Vector::F x) { Vector::store_bf16(p, x); }
};

// out[0 .. head_dim), and up to the next whole vector, in the cache's type.
template <typename Store>
void narrow_head(const float* head, int32_t head_dim, typename Store::Element* out) {
  for (int32_t i = 0; i < head_dim; i += Vector::kLanes) {
    Store::store(out + i, Vector::load_first(head + i, std::min(Vector::kLanes, head_dim - i)));
  }
}

template <typename Store>
void write_kv(const RopeKvArgs& args, int32_t slot, int32_t kv_head, const float* k,
              const float* v) {
  using Element = typename Store::Element;
  const KvLayout& layout = args.kv.layout;
  const int32_t offset = slot % layout.page_size;
  auto* page = reinterpret_cast<Element*>(args.kv.pages +
                                          slot / layout.page_size * args.kv.page_stride_bytes);
  Element narrow[kMaxHeadDim];
  narrow_head<Store>(k, layout.head_dim, narrow);
  Element* keys = page + layout.key_offset(kv_head, 0, offset);
  const int64_t stride = layout.page_size;
  for (int32_t d = 0; d < layout.head_dim; ++d) keys[d * stride] = narrow[d];
  narrow_head<Store>(v, layout.head_dim, narrow);
  std::copy_n(narrow, layout.head_dim, page + layout.value_offset(kv_head, offset, 0));
}

template <typename Store>
void rope_kv_as(const RopeKvArgs& args, const Worker& worker) {
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
    float rotated[kMaxHeadDim];
    rotate_head(args, k, args.k_norm_weight, cos_sin, rotated);
    write_kv<Store>(args, slot, kv_head, rotated, k + layout.num_kv_heads * head_dim);
  }
}

inline void rope_kv_simd(const RopeKvArgs& args, const Worker& worker) {
  switch (args.kv.layout.type) {
    case WeightType::kF16:
      return rope_kv_as<StoreF16>(args, worker);
    case WeightType::kBF16:
      return rope_kv_as<StoreBf16>(args, worker);
    default:
      return rope_kv_as<StoreF32>(args, worker);
  }
}

}  // namespace
}  // namespace encore::kernels
