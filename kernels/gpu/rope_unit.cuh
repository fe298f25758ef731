// What a lane of rope_kv_write has of a head, and what is done with it: load, normalise, rotate,
// store.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/rope.h"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {

// How rope_kv_write divides a head: into units of 2 * N elements, one a lane. A unit below `pairs`
// / N holds N pairs: N elements and their N partners. Others hold elements that are not rotated.
// The lanes of a head are a power of two, so that they can add up by shuffles.
struct HeadSplit {
  int32_t pairs;
  int32_t rotated_units;
  int32_t units;
  int32_t lanes;
};
template <int N>
inline HeadSplit split_heads(const RopeKvArgs& args) {
  HeadSplit split{};
  split.pairs = args.rotary_dim / 2;
  split.rotated_units = split.pairs / N;
  split.units = (args.kv.layout.head_dim + 2 * N - 1) / (2 * N);
  split.lanes = 1;
  while (split.lanes < split.units) split.lanes *= 2;
  return split;
}

// Sizes of KvLayout, whose functions are the host's.
struct KvStrides {
  int64_t page_bytes;
  int64_t half;  // elements
  int64_t head;  // elements
};
inline KvStrides kv_strides(const KvLayout& layout) {
  return {layout.page_bytes(), layout.half_elements(), layout.head_elements()};
}

// Where the two packs of a unit begin in the head; the second is not there if it is at head_dim.
struct UnitPlace {
  int32_t first;
  int32_t second;
};
template <int N>
__device__ inline UnitPlace place_of(const RopeKvArgs& args, const HeadSplit& split, int32_t unit) {
  const bool halves = args.pairing == RopePairing::kHalfSplit && unit < split.rotated_units;
  return halves ? UnitPlace{unit * N, unit * N + split.pairs}
                : UnitPlace{2 * unit * N, 2 * unit * N + N};
}

// The two packs of a unit.
template <int N>
struct Unit {
  Pack<N> first;
  Pack<N> second;
};
template <int N>
__device__ inline Unit<N> load_unit(const bf16* head, const UnitPlace& place, int32_t head_dim) {
  Unit<N> unit{};
  unit.first = load_pack<N>(head + place.first);
  if (place.second < head_dim) unit.second = load_pack<N>(head + place.second);
  return unit;
}

// REQUIRES: `from` aligned to 16 bytes if N is a multiple of 4.
template <int N>
__device__ inline void load_floats(const float* from, float (&values)[N]) {
  struct alignas(N % 4 == 0 ? 16 : 4) Floats {
    float values[N % 4 == 0 ? 4 : 1];
  };
  constexpr int kStep = sizeof(Floats) / sizeof(float);
#pragma unroll
  for (int i = 0; i < N; i += kStep) {
    const Floats some = *reinterpret_cast<const Floats*>(from + i);
#pragma unroll
    for (int j = 0; j < kStep; ++j) values[i + j] = some.values[j];
  }
}

template <int N>
__device__ inline float squares(const float (&a)[N]) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += a[i] * a[i];
  return sum;
}

// The fused products are written out, so that the bits are those of every kernel made of this.
template <int N>
__device__ inline void rotate_halves(const float* cosines, const float* sines, float (&a)[N],
                                     float (&b)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float first = a[i];
    a[i] = fmaf(first, cosines[i], -(b[i] * sines[i]));
    b[i] = fmaf(b[i], cosines[i], first * sines[i]);
  }
}

// Element i of the unit is a[i], or b[i - N]; pair j is elements 2j and 2j + 1.
template <int N>
__device__ inline void rotate_adjacent(const float* cosines, const float* sines, float (&a)[N],
                                       float (&b)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float& even = 2 * j < N ? a[2 * j < N ? 2 * j : 0] : b[2 * j < N ? 0 : 2 * j - N];
    float& odd =
        2 * j + 1 < N ? a[2 * j + 1 < N ? 2 * j + 1 : 0] : b[2 * j + 1 < N ? 0 : 2 * j + 1 - N];
    const float first = even;
    even = fmaf(first, cosines[j], -(odd * sines[j]));
    odd = fmaf(odd, cosines[j], first * sines[j]);
  }
}

template <int N>
__device__ inline void rotate(RopePairing pairing, const float (&cosines)[N],
                              const float (&sines)[N], float (&a)[N], float (&b)[N]) {
  if (pairing == RopePairing::kHalfSplit) {
    rotate_halves(cosines, sines, a, b);
  } else {
    rotate_adjacent(cosines, sines, a, b);
  }
}

template <int N>
__device__ inline void store_values(Element element, std::byte* page, int64_t at,
                                    const float (&values)[N]) {
  switch (element) {
    case Element::kBF16:
      return store_pack(reinterpret_cast<bf16*>(page) + at, pack_of(values));
    case Element::kF16: {
      struct alignas(2 * N) Halves {
        f16 values[N];
      } halves;
#pragma unroll
      for (int i = 0; i < N; ++i) halves.values[i] = __float2half_rn(values[i]);
      *reinterpret_cast<Halves*>(reinterpret_cast<f16*>(page) + at) = halves;
      return;
    }
    case Element::kF32:
#pragma unroll
      for (int i = 0; i < N; ++i) reinterpret_cast<float*>(page)[at + i] = values[i];
      return;
  }
}

// A head of q, k or v: `index` counts them in this order.
struct Head {
  int32_t index;
  bool is_q;
  bool is_k;
  bool has_work;  // it is there, and so is this lane's unit

  __device__ Head(const RopeKvArgs& args, int32_t i, bool has_unit)
      : index(i),
        is_q(i < args.num_heads),
        is_k(!is_q && i < args.num_heads + args.kv.layout.num_kv_heads),
        has_work(has_unit && i < args.num_heads + 2 * args.kv.layout.num_kv_heads) {}
  // Null: no norm.
  __device__ const bf16* weight(const RopeKvArgs& args) const {
    return static_cast<const bf16*>(is_q   ? args.q_norm_weight
                                    : is_k ? args.k_norm_weight
                                           : nullptr);
  }
};

// Where a token's keys and values go: what comes before the head, and the row in it.
struct CacheRow {
  std::byte* page;  // null: nowhere
  int64_t row;      // elements

  __device__ CacheRow(const RopeKvArgs& args, const KvStrides& strides, int32_t slot)
      : page(nullptr), row(0) {
    if (slot < 0) return;
    const auto page_size = static_cast<uint32_t>(args.kv.layout.page_size);
    const uint32_t page_id = static_cast<uint32_t>(slot) / page_size;
    page = args.kv.data + static_cast<int64_t>(page_id) * strides.page_bytes;
    row = static_cast<int64_t>(static_cast<uint32_t>(slot) - page_id * page_size) *
          args.kv.layout.head_dim;
  }
};

// Multiplies by the weight over the root mean square of the head, whose lanes add it up together,
// also if the head has no norm.
template <int W, int N>
__device__ inline void normalise(const RopeKvArgs& args, const HeadSplit& split, bool has_norm,
                                 const Unit<N>& weight, float (&a)[N], float (&b)[N]) {
  float sum = squares(a) + squares(b);
  for (int32_t mask = split.lanes / 2; mask > 0; mask /= 2) sum += shuffle_xor<W>(sum, mask);
  if (!has_norm) return;
  const float inverse = rsqrtf(sum / static_cast<float>(args.kv.layout.head_dim) + args.norm_eps);
  float weight_a[N];
  float weight_b[N];
  unpack(weight.first, weight_a);
  unpack(weight.second, weight_b);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    a[i] *= inverse * weight_a[i];
    b[i] *= inverse * weight_b[i];
  }
}

// q in place, k and v to the cache. `x`: the head.
template <int N>
__device__ inline void store_unit(const RopeKvArgs& args, const KvStrides& strides,
                                  const Head& head, const UnitPlace& place, const CacheRow& cache,
                                  bf16* x, const float (&a)[N], const float (&b)[N]) {
  const KvLayout& layout = args.kv.layout;
  const bool two = place.second < layout.head_dim;
  if (head.is_q) {
    store_pack(x + place.first, pack_of(a));
    if (two) store_pack(x + place.second, pack_of(b));
    return;
  }
  if (cache.page == nullptr) return;
  const int32_t kv_head = head.index - args.num_heads - (head.is_k ? 0 : layout.num_kv_heads);
  const int64_t row = (head.is_k ? 0 : strides.half) + kv_head * strides.head + cache.row;
  store_values(layout.element, cache.page, row + place.first, a);
  if (two) store_values(layout.element, cache.page, row + place.second, b);
}

}  // namespace encore::gpu
