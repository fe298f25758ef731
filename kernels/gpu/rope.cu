#include "kernels/gpu/rope.h"
#include "launch.cuh"
#include "pack.cuh"
#include "rope_unit.cuh"
#include "vendor.h"

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

// Blocks cover (token, piece of its heads); see HeadSplit for the lanes of a head. A thread has the
// same unit of kHeads heads, kThreads / split.lanes apart, whose loads are all under way at once.
// One head if tokens are few: then what counts is how soon a thread is done, and all that can be is
// read before anything is waited for.
template <int W, int N, int kHeads, bool kNorm>
__global__ void __launch_bounds__(kThreads, kHeads == 1 || kNorm ? 4 : 5)
    rope_kv_kernel(RopeKvArgs args, HeadSplit split, KvStrides strides, int32_t blocks_per_token) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  constexpr bool kFew = kHeads == 1;
  const int32_t head_dim = args.kv.layout.head_dim;
  const auto token = static_cast<int32_t>(blockIdx.x) / blocks_per_token;
  const auto index = static_cast<int32_t>(blockIdx.x) % blocks_per_token * (kThreads * kHeads) +
                     static_cast<int32_t>(threadIdx.x);
  const int32_t first_head = index / split.lanes;
  const int32_t unit = index % split.lanes;
  const bool has_unit = unit < split.units;
  const UnitPlace place = place_of<N>(args, split, unit);
  const auto head_of = [&](int i) {
    return Head(args, first_head + i * (kThreads / split.lanes), has_unit);
  };
  const auto load_weight = [&](const Head& head) {
    const bf16* weight = head.weight(args);
    return weight != nullptr && head.has_work ? load_unit<N>(weight, place, head_dim) : Unit<N>{};
  };
  Unit<N> weight{};  // constant data: need not wait
  if (kFew && kNorm) weight = load_weight(head_of(0));

  wait_for_previous_kernel();
  const int32_t live = *args.tokens.live;
  if (!kFew && token >= live) return;
  const int32_t slot = args.slots[token];
  bf16* const x = static_cast<bf16*>(args.qkv) + token * args.qkv_stride;
  Unit<N> units[kHeads];
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    const Head head = head_of(i);
    units[i] = head.has_work
                   ? load_unit<N>(x + static_cast<int64_t>(head.index) * head_dim, place, head_dim)
                   : Unit<N>{};
  }
  const auto rotates = [&](const Head& head) {
    return (head.is_q || head.is_k) && unit < split.rotated_units;
  };
  float cosines[N] = {};
  float sines[N] = {};
  if (rotates(head_of(0))) {
    const float* row = args.cos_sin + static_cast<int64_t>(token) * args.rotary_dim + unit * N;
    load_floats(row, cosines);
    load_floats(row + split.pairs, sines);
  }
  release_next_kernel();
  if (token >= live) return;

  const CacheRow cache(args, strides, slot);
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    const Head head = head_of(i);
    float a[N];
    float b[N];
    unpack(units[i].first, a);
    unpack(units[i].second, b);
    if (kNorm) {
      if (!kFew) weight = load_weight(head);
      normalise<W>(args, split, head.weight(args) != nullptr, weight, a, b);
    }
    if (!head.has_work) continue;
    if (rotates(head)) rotate(args.pairing, cosines, sines, a, b);
    store_unit(args, strides, head, place, cache, x + static_cast<int64_t>(head.index) * head_dim,
               a, b);
  }
}

template <int N, int kHeads>
LaunchError launch_heads(const RopeKvArgs& args, const HeadSplit& split, const Launch& launch) {
  const KvLayout& layout = args.kv.layout;
  const KvStrides strides = kv_strides(layout);
  const int32_t threads = (args.num_heads + 2 * layout.num_kv_heads) * split.lanes;
  const int32_t blocks_per_token = (threads + kThreads * kHeads - 1) / (kThreads * kHeads);
  const bool norm = args.q_norm_weight != nullptr || args.k_norm_weight != nullptr;
  return with_lanes(launch, [&]<int W>() {
    const auto kernel =
        norm ? rope_kv_kernel<W, N, kHeads, true> : rope_kv_kernel<W, N, kHeads, false>;
    return launch_kernel(kernel, args.tokens.maximum * blocks_per_token, kThreads, 0, launch, args,
                         split, strides, blocks_per_token);
  });
}

template <int N>
LaunchError launch_rope(const RopeKvArgs& args, const Launch& launch) {
  const HeadSplit split = split_heads<N>(args);
  if (split.lanes > launch.lanes) return gpuErrorInvalidValue;
  // Narrow units are of rare shapes.
  if constexpr (N == 8) {
    if (args.tokens.maximum > kFewTokens) return launch_heads<N, kHeadsOfMany>(args, split, launch);
  }
  return launch_heads<N, 1>(args, split, launch);
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
