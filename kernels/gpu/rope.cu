#include "kernels/gpu/rope.h"
#include "launch.cuh"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kThreads = 128;

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

template <int W>
__device__ void load_unit(const bf16* head, const UnitPlace& place, int32_t head_dim, float (&a)[W],
                          float (&b)[W]) {
  unpack(load_pack<W>(head + place.first), a);
  if (place.second < head_dim) unpack(load_pack<W>(head + place.second), b);
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

template <int W>
__device__ void rotate_halves(const float* cosines, const float* sines, float (&a)[W],
                              float (&b)[W]) {
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float first = a[i];
    a[i] = first * cosines[i] - b[i] * sines[i];
    b[i] = b[i] * cosines[i] + first * sines[i];
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
    even = first * cosines[j] - odd * sines[j];
    odd = odd * cosines[j] + first * sines[j];
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

// Blocks cover (token, piece of its heads); see HeadSplit for the lanes of a head.
template <int W>
__global__ void __launch_bounds__(kThreads)
    rope_kv_kernel(RopeKvArgs args, HeadSplit split, KvStrides strides, int32_t blocks_per_token) {
  const KvLayout& layout = args.kv.layout;
  const int32_t head_dim = layout.head_dim;
  const auto token = static_cast<int32_t>(blockIdx.x) / blocks_per_token;
  const auto index = static_cast<int32_t>(blockIdx.x) % blocks_per_token * kThreads +
                     static_cast<int32_t>(threadIdx.x);
  const int32_t head = index / split.lanes;
  const int32_t unit = index % split.lanes;
  const bool is_q = head < args.num_heads;
  const bool is_k = !is_q && head < args.num_heads + layout.num_kv_heads;
  const bool has_work = head < args.num_heads + 2 * layout.num_kv_heads && unit < split.units;
  const bool rotates = (is_q || is_k) && unit < split.rotated_units;
  const auto* weight = static_cast<const bf16*>(is_q   ? args.q_norm_weight
                                                : is_k ? args.k_norm_weight
                                                       : nullptr);
  const UnitPlace place = place_of<W>(args, split, unit);
  float weight_a[W] = {};
  float weight_b[W] = {};  // constant data: need not wait
  if (weight != nullptr && has_work) load_unit<W>(weight, place, head_dim, weight_a, weight_b);

  wait_for_previous_kernel();
  if (token >= *args.tokens.live) return;
  const int32_t slot = args.slots[token];
  bf16* x = static_cast<bf16*>(args.qkv) + token * args.qkv_stride +
            static_cast<int64_t>(head) * head_dim;
  float a[W] = {};
  float b[W] = {};
  if (has_work) load_unit<W>(x, place, head_dim, a, b);
  float cosines[W] = {};
  float sines[W] = {};
  if (rotates) {
    const float* row = args.cos_sin + static_cast<int64_t>(token) * args.rotary_dim + unit * W;
    load_floats(row, cosines);
    load_floats(row + split.pairs, sines);
  }
  release_next_kernel();

  if (args.q_norm_weight != nullptr || args.k_norm_weight != nullptr) {
    float sum = squares(a) + squares(b);
    for (int32_t mask = split.lanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (weight != nullptr) {
      const float inverse = rsqrtf(sum / static_cast<float>(head_dim) + args.norm_eps);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        a[i] *= inverse * weight_a[i];
        b[i] *= inverse * weight_b[i];
      }
    }
  }
  if (!has_work) return;
  if (rotates && args.pairing == RopePairing::kHalfSplit) rotate_halves(cosines, sines, a, b);
  if (rotates && args.pairing == RopePairing::kAdjacentPairs) rotate_adjacent(cosines, sines, a, b);

  const bool two = place.second < head_dim;
  if (is_q) {
    store_pack(x + place.first, pack_of(a));
    if (two) store_pack(x + place.second, pack_of(b));
    return;
  }
  if (slot < 0) return;
  const int32_t kv_head = head - args.num_heads - (is_k ? 0 : layout.num_kv_heads);
  std::byte* page =
      args.kv.data + static_cast<int64_t>(slot / layout.page_size) * strides.page_bytes;
  const int64_t row = (is_k ? 0 : strides.half) + kv_head * strides.head +
                      static_cast<int64_t>(slot % layout.page_size) * head_dim;
  store_values(layout.element, page, row + place.first, a);
  if (two) store_values(layout.element, page, row + place.second, b);
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
  const KvStrides strides{layout.page_bytes(), layout.half_elements(), layout.head_elements()};
  const int32_t threads = (args.num_heads + 2 * layout.num_kv_heads) * split.lanes;
  const int32_t blocks_per_token = (threads + kThreads - 1) / kThreads;
  return launch_kernel(rope_kv_kernel<W>, args.tokens.maximum * blocks_per_token, kThreads, 0,
                       launch, args, split, strides, blocks_per_token);
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
