#include "kernels/gpu/rope.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kThreads = 128;
// Up to these many tokens a device is not full, and rope_kv_write gives a thread one head.
constexpr int32_t kFewTokens = 512;
constexpr int kHeadsOfMany = 3;

__device__ int32_t slot_of(const StepTablesArgs& args, int32_t token) {
  const int32_t request = args.token_request[token];
  const int32_t position = args.positions[token];
  if (request < 0 || position < 0) return -1;
  const int32_t index = args.page_start[request] + position / args.page_size;
  if (index >= args.page_start[request + 1]) return -1;
  const int32_t page = args.page_ids[index];
  if (page < 0 || page >= args.num_pages) return -1;
  return page * args.page_size + position % args.page_size;
}

// A thread writes one angle of one token; the first of a token, its slot too.
__global__ void __launch_bounds__(kThreads) step_tables_kernel(StepTablesArgs args) {
  const int32_t pairs = args.rotary_dim / 2;
  const int32_t units = pairs > 0 ? pairs : 1;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const auto token = static_cast<int32_t>(index / units);
  const auto pair = static_cast<int32_t>(index % units);
  wait_for_previous_kernel();
  if (token >= args.tokens.maximum) return;
  const bool live = token < *args.tokens.live;
  if (pair == 0) args.slots[token] = live ? slot_of(args, token) : -1;
  if (!live || pair >= pairs) return;
  // Turns are exact to 2^-33 at any position below 2^20: the product of position and frequency is
  // exact in double, and sincospi reduces its argument exactly.
  constexpr double kInversePi = 0.318309886183790671538;
  const double half_turns = static_cast<double>(args.positions[token]) *
                            static_cast<double>(args.inv_freq[pair]) * kInversePi;
  double sine;
  double cosine;
  sincospi(half_turns, &sine, &cosine);
  float* row = args.cos_sin + static_cast<int64_t>(token) * args.rotary_dim;
  row[pair] = static_cast<float>(cosine * static_cast<double>(args.attention_scale));
  row[pairs + pair] = static_cast<float>(sine * static_cast<double>(args.attention_scale));
}

// How rope_kv_write divides a head: into units of 2 * W elements, one a lane. A unit below `pairs`
// / W holds W pairs: W elements and their W partners. Others hold elements that are not rotated.
// The lanes of a head are a power of two, so that they can add up by shuffles.
struct HeadSplit {
  int32_t pairs;
  int32_t rotated_units;
  int32_t units;
  int32_t lanes;
};

// Sizes of KvLayout, whose functions are the host's.
struct KvStrides {
  int64_t page_bytes;
  int64_t half;  // elements
  int64_t head;  // elements
};

// Where the two packs of a unit begin in the head; the second is not there if it is at head_dim.
struct UnitPlace {
  int32_t first;
  int32_t second;
};
template <int W>
__device__ UnitPlace place_of(const RopeKvArgs& args, const HeadSplit& split, int32_t unit) {
  const bool halves = args.pairing == RopePairing::kHalfSplit && unit < split.rotated_units;
  return halves ? UnitPlace{unit * W, unit * W + split.pairs}
                : UnitPlace{2 * unit * W, 2 * unit * W + W};
}

// The two packs of a unit.
template <int W>
struct Unit {
  Pack<W> first;
  Pack<W> second;
};
template <int W>
__device__ Unit<W> load_unit(const bf16* head, const UnitPlace& place, int32_t head_dim) {
  Unit<W> unit{};
  unit.first = load_pack<W>(head + place.first);
  if (place.second < head_dim) unit.second = load_pack<W>(head + place.second);
  return unit;
}

// REQUIRES: `from` aligned to 16 bytes if W is a multiple of 4.
template <int W>
__device__ void load_floats(const float* from, float (&values)[W]) {
  struct alignas(W % 4 == 0 ? 16 : 4) Floats {
    float values[W % 4 == 0 ? 4 : 1];
  };
  constexpr int kStep = sizeof(Floats) / sizeof(float);
#pragma unroll
  for (int i = 0; i < W; i += kStep) {
    const Floats some = *reinterpret_cast<const Floats*>(from + i);
#pragma unroll
    for (int j = 0; j < kStep; ++j) values[i + j] = some.values[j];
  }
}

template <int W>
__device__ float squares(const float (&a)[W]) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < W; ++i) sum += a[i] * a[i];
  return sum;
}

// The fused products are written out, so that the bits are those of every kernel made of this.
template <int W>
__device__ void rotate_halves(const float* cosines, const float* sines, float (&a)[W],
                              float (&b)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float first = a[i];
    a[i] = fmaf(first, cosines[i], -(b[i] * sines[i]));
    b[i] = fmaf(b[i], cosines[i], first * sines[i]);
  }
}

// Element i of the unit is a[i], or b[i - W]; pair j is elements 2j and 2j + 1.
template <int W>
__device__ void rotate_adjacent(const float* cosines, const float* sines, float (&a)[W],
                                float (&b)[W]) {
#pragma unroll
  for (int j = 0; j < W; ++j) {
    float& even = 2 * j < W ? a[2 * j < W ? 2 * j : 0] : b[2 * j < W ? 0 : 2 * j - W];
    float& odd =
        2 * j + 1 < W ? a[2 * j + 1 < W ? 2 * j + 1 : 0] : b[2 * j + 1 < W ? 0 : 2 * j + 1 - W];
    const float first = even;
    even = fmaf(first, cosines[j], -(odd * sines[j]));
    odd = fmaf(odd, cosines[j], first * sines[j]);
  }
}

template <int W>
__device__ void store_values(Element element, std::byte* page, int64_t at,
                             const float (&values)[W]) {
  switch (element) {
    case Element::kBF16:
      return store_pack(reinterpret_cast<bf16*>(page) + at, pack_of(values));
    case Element::kF16: {
      struct alignas(2 * W) Halves {
        f16 values[W];
      } halves;
#pragma unroll
      for (int i = 0; i < W; ++i) halves.values[i] = __float2half_rn(values[i]);
      *reinterpret_cast<Halves*>(reinterpret_cast<f16*>(page) + at) = halves;
      return;
    }
    case Element::kF32:
#pragma unroll
      for (int i = 0; i < W; ++i) reinterpret_cast<float*>(page)[at + i] = values[i];
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
template <int W>
__device__ void normalise(const RopeKvArgs& args, const HeadSplit& split, bool has_norm,
                          const Unit<W>& weight, float (&a)[W], float (&b)[W]) {
  float sum = squares(a) + squares(b);
  for (int32_t mask = split.lanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (!has_norm) return;
  const float inverse = rsqrtf(sum / static_cast<float>(args.kv.layout.head_dim) + args.norm_eps);
  float weight_a[W];
  float weight_b[W];
  unpack(weight.first, weight_a);
  unpack(weight.second, weight_b);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    a[i] *= inverse * weight_a[i];
    b[i] *= inverse * weight_b[i];
  }
}

// q in place, k and v to the cache. `x`: the head.
template <int W>
__device__ void store_unit(const RopeKvArgs& args, const KvStrides& strides, const Head& head,
                           const UnitPlace& place, const CacheRow& cache, bf16* x,
                           const float (&a)[W], const float (&b)[W]) {
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

// Blocks cover (token, piece of its heads); see HeadSplit for the lanes of a head. A thread has the
// same unit of kHeads heads, kThreads / split.lanes apart, whose loads are all under way at once.
// One head if tokens are few: then what counts is how soon a thread is done, and all that can be is
// read before anything is waited for.
template <int W, int kHeads, bool kNorm>
__global__ void __launch_bounds__(kThreads, kHeads == 1 || kNorm ? 4 : 5)
    rope_kv_kernel(RopeKvArgs args, HeadSplit split, KvStrides strides, int32_t blocks_per_token) {
  constexpr bool kFew = kHeads == 1;
  const int32_t head_dim = args.kv.layout.head_dim;
  const auto token = static_cast<int32_t>(blockIdx.x) / blocks_per_token;
  const auto index = static_cast<int32_t>(blockIdx.x) % blocks_per_token * (kThreads * kHeads) +
                     static_cast<int32_t>(threadIdx.x);
  const int32_t first_head = index / split.lanes;
  const int32_t unit = index % split.lanes;
  const bool has_unit = unit < split.units;
  const UnitPlace place = place_of<W>(args, split, unit);
  const auto head_of = [&](int i) {
    return Head(args, first_head + i * (kThreads / split.lanes), has_unit);
  };
  const auto load_weight = [&](const Head& head) {
    const bf16* weight = head.weight(args);
    return weight != nullptr && head.has_work ? load_unit<W>(weight, place, head_dim) : Unit<W>{};
  };
  Unit<W> weight{};  // constant data: need not wait
  if (kFew && kNorm) weight = load_weight(head_of(0));

  wait_for_previous_kernel();
  const int32_t live = *args.tokens.live;
  if (!kFew && token >= live) return;
  const int32_t slot = args.slots[token];
  bf16* const x = static_cast<bf16*>(args.qkv) + token * args.qkv_stride;
  Unit<W> units[kHeads];
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    const Head head = head_of(i);
    units[i] = head.has_work
                   ? load_unit<W>(x + static_cast<int64_t>(head.index) * head_dim, place, head_dim)
                   : Unit<W>{};
  }
  const auto rotates = [&](const Head& head) {
    return (head.is_q || head.is_k) && unit < split.rotated_units;
  };
  float cosines[W] = {};
  float sines[W] = {};
  if (rotates(head_of(0))) {
    const float* row = args.cos_sin + static_cast<int64_t>(token) * args.rotary_dim + unit * W;
    load_floats(row, cosines);
    load_floats(row + split.pairs, sines);
  }
  release_next_kernel();
  if (token >= live) return;

  const CacheRow cache(args, strides, slot);
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    const Head head = head_of(i);
    float a[W];
    float b[W];
    unpack(units[i].first, a);
    unpack(units[i].second, b);
    if (kNorm) {
      if (!kFew) weight = load_weight(head);
      normalise(args, split, head.weight(args) != nullptr, weight, a, b);
    }
    if (!head.has_work) continue;
    if (rotates(head)) {
      if (args.pairing == RopePairing::kHalfSplit) {
        rotate_halves(cosines, sines, a, b);
      } else {
        rotate_adjacent(cosines, sines, a, b);
      }
    }
    store_unit(args, strides, head, place, cache, x + static_cast<int64_t>(head.index) * head_dim,
               a, b);
  }
}

template <int W, int kHeads>
LaunchError launch_heads(const RopeKvArgs& args, const HeadSplit& split, const Launch& launch) {
  const KvLayout& layout = args.kv.layout;
  const KvStrides strides{layout.page_bytes(), layout.half_elements(), layout.head_elements()};
  const int32_t threads = (args.num_heads + 2 * layout.num_kv_heads) * split.lanes;
  const int32_t blocks_per_token = (threads + kThreads * kHeads - 1) / (kThreads * kHeads);
  const bool norm = args.q_norm_weight != nullptr || args.k_norm_weight != nullptr;
  const auto kernel = norm ? rope_kv_kernel<W, kHeads, true> : rope_kv_kernel<W, kHeads, false>;
  return launch_kernel(kernel, args.tokens.maximum * blocks_per_token, kThreads, 0, launch, args,
                       split, strides, blocks_per_token);
}

template <int W>
LaunchError launch_rope(const RopeKvArgs& args, const Launch& launch) {
  const KvLayout& layout = args.kv.layout;
  HeadSplit split{};
  split.pairs = args.rotary_dim / 2;
  split.rotated_units = split.pairs / W;
  split.units = (layout.head_dim + 2 * W - 1) / (2 * W);
  split.lanes = 1;
  while (split.lanes < split.units) split.lanes *= 2;
  if (split.lanes > kWarpSize) return gpuErrorInvalidValue;
  // Narrow units are of rare shapes.
  if constexpr (W == 8) {
    if (args.tokens.maximum > kFewTokens) return launch_heads<W, kHeadsOfMany>(args, split, launch);
  }
  return launch_heads<W, 1>(args, split, launch);
}

}  // namespace

LaunchError step_tables(const StepTablesArgs& args, const Launch& launch) {
  if (args.rotary_dim < 0 || args.rotary_dim % 2 != 0 || args.page_size <= 0) {
    return gpuErrorInvalidValue;
  }
  if (args.tokens.maximum <= 0) return gpuSuccess;
  const int64_t units = args.rotary_dim > 0 ? args.rotary_dim / 2 : 1;
  const int64_t blocks = (args.tokens.maximum * units + kThreads - 1) / kThreads;
  return launch_kernel(step_tables_kernel, static_cast<unsigned>(blocks), kThreads, 0, launch,
                       args);
}

LaunchError rope_kv_write(const RopeKvArgs& args, const Launch& launch) {
  const KvLayout& layout = args.kv.layout;
  const int32_t pairs = args.rotary_dim / 2;
  if (layout.head_dim <= 0 || layout.head_dim % 8 != 0 || args.qkv_stride % 8 != 0 ||
      args.rotary_dim < 0 || args.rotary_dim % 2 != 0 || args.rotary_dim > layout.head_dim) {
    return gpuErrorInvalidValue;
  }
  if (args.tokens.maximum <= 0) return gpuSuccess;
  if (pairs % 8 == 0) return launch_rope<8>(args, launch);
  if (pairs % 4 == 0) return launch_rope<4>(args, launch);
  if (pairs % 2 == 0) return launch_rope<2>(args, launch);
  return launch_rope<1>(args, launch);
}

}  // namespace encore::gpu
