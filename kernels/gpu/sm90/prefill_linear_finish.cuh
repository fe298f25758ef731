// From sums over k to results. A lane holds, of 8 columns (a group), two in each of two rows; four
// lanes hold a row. They swap, so that each has all 8 columns of one of four groups and moves 16
// bytes at once.
#pragma once

#include "sm90/barrier.cuh"
#include "sm90/prefill_linear_shape.cuh"

namespace encore::gpu {

// Rows become columns of the square that kN lanes hold with kN words each; its own inverse.
__device__ inline void swap_with(uint32_t& low, uint32_t& high, int distance) {
  const bool upper = (threadIdx.x & distance) != 0;
  const uint32_t got = __shfl_xor_sync(0xffffffffU, upper ? low : high, distance);
  low = upper ? got : low;
  high = upper ? high : got;
}
template <int kN>
__device__ inline void transpose(uint32_t (&v)[kN]) {
  if constexpr (kN == 2) {
    swap_with(v[0], v[1], 1);
  } else {
    static_assert(kN == 4);
    swap_with(v[0], v[1], 1);
    swap_with(v[2], v[3], 1);
    swap_with(v[0], v[2], 2);
    swap_with(v[1], v[3], 2);
  }
}

__device__ inline uint32_t pack_pair(float low, float high) {
  const bf16x2 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ inline float2 unpack_pair(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const bf16x2*>(&pair));
}
__device__ inline float silu_mul(float gate, float up) {
  return __fdividef(gate, 1.0F + __expf(-gate)) * up;
}

// kN words (2 or 4) of a row of y at `column`, if the row is live and the columns there are.
template <int kN>
__device__ inline void load_words(const bf16* row, int column, uint32_t (&v)[kN]) {
  if constexpr (kN == 4) {
    const uint4 all = *reinterpret_cast<const uint4*>(row + column);
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
  } else {
    const uint2 all = *reinterpret_cast<const uint2*>(row + column);
    v[0] = all.x, v[1] = all.y;
  }
}
template <int kN>
__device__ inline void store_words(bf16* row, int column, const uint32_t (&v)[kN]) {
  if constexpr (kN == 4) {
    *reinterpret_cast<uint4*>(row + column) = make_uint4(v[0], v[1], v[2], v[3]);
  } else {
    *reinterpret_cast<uint2*>(row + column) = make_uint2(v[0], v[1]);
  }
}

// A lane's part of a block's share of a tile: two rows, S::kOutGroups groups of columns.
template <typename S>
class PrefillFinish {
 public:
  static constexpr int kQuads = S::kOutGroups / 4;
  static constexpr bool kPair = S::kOutGroups % 4 == 2;  // two groups are left

  // `row`, `column`: in elements, of the tile's first and of the first that this block finishes.
  __device__ PrefillFinish(const PrefillParams& p, int row, int column, int live)
      : p_(p), column_(column), lane_(static_cast<int>(threadIdx.x) % 4) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    row += warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      live_[i] = row + 8 * i < live;
      row_[i] = p.y + static_cast<size_t>(row + 8 * i) * p.out_n;
    }
  }

  // kAdd: reads what y was, to be had when the sums are.
  __device__ __forceinline__ void load() {
    if constexpr (S::kAdd) {
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) load_old<4>(quad * 4, old_[quad]);
      if constexpr (kPair) load_old<2>(kQuads * 4, old_pair_);
    }
  }

  // sums: 4 a group.
  __device__ __forceinline__ void store(const float (&sums)[4 * S::kGroups]) {
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) store_groups<4>(sums, quad * 4, old_[quad]);
    if constexpr (kPair) store_groups<2>(sums, kQuads * 4, old_pair_);
  }

 private:
  // After the swap this lane has, from `group` on, groups lane % kN; two lanes share one of a pair.
  template <int kN>
  __device__ int my_column(int group) const {
    return column_ + 8 * (group + lane_ % kN) + (kN == 2 ? lane_ / 2 * 4 : 0);
  }

  template <int kN>
  __device__ __forceinline__ void load_old(int group, uint32_t (&old)[2][kN]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (uint32_t& word : old[i]) word = 0;
      if (live_[i] && my_column<kN>(group) < p_.out_n) {
        load_words<kN>(row_[i], my_column<kN>(group), old[i]);
      }
    }
  }

  // Value pair of a row (0 or 1) in a group, before what y was is added.
  __device__ __forceinline__ float2 value(const float (&sums)[4 * S::kGroups], int group,
                                          int i) const {
    const float2 bias = bias_of(group, 0);
    const float2 sum = {sums[4 * group + 2 * i] + bias.x, sums[4 * group + 2 * i + 1] + bias.y};
    if constexpr (!S::kSilu) return sum;
    const int up = 4 * (group + S::kOutGroups) + 2 * i;
    const float2 up_bias = bias_of(group, p_.out_n);
    return {silu_mul(sum.x, sums[up] + up_bias.x), silu_mul(sum.y, sums[up + 1] + up_bias.y)};
  }
  __device__ __forceinline__ float2 bias_of(int group, int offset) const {
    const int column = column_ + 8 * group + 2 * lane_;
    if (p_.bias == nullptr || column >= p_.out_n) return {0.0F, 0.0F};
    return unpack_pair(*reinterpret_cast<const uint32_t*>(p_.bias + offset + column));
  }

  template <int kN>
  __device__ __forceinline__ void store_groups(const float (&sums)[4 * S::kGroups], int group,
                                               uint32_t (&old)[2][kN]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (S::kAdd) transpose(old[i]);
      uint32_t words[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        float2 v = value(sums, group + j, i);
        if constexpr (S::kAdd) {
          const float2 was = unpack_pair(old[i][j]);
          v.x += was.x, v.y += was.y;
        }
        words[j] = pack_pair(v.x, v.y);
      }
      transpose(words);
      if (live_[i] && my_column<kN>(group) < p_.out_n) {
        store_words<kN>(row_[i], my_column<kN>(group), words);
      }
    }
  }

  const PrefillParams& p_;
  const int column_;
  const int lane_;
  bool live_[2];
  bf16* row_[2];
  uint32_t old_[kQuads > 0 ? kQuads : 1][2][4];
  uint32_t old_pair_[2][2];
};

// ---- partial sums of a split ----

// What a block receives: [slice][group][consumer thread] of four sums.
template <typename S>
__device__ __forceinline__ void send_sums(const PrefillParams& p, const PrefillPlace& place,
                                          const float4* received,
                                          const float (&sums)[4 * S::kTileGroups]) {
#pragma unroll
  for (int group = 0; group < S::kTileGroups; ++group) {
    const int to = group / S::kGroups;
    const int at = (place.slice * S::kGroups + group % S::kGroups) * kPrefillConsumers +
                   static_cast<int>(threadIdx.x);
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(
                     peer_address(received + at, prefill_rank(p, place.row, place.column, to))),
                 "f"(sums[4 * group]), "f"(sums[4 * group + 1]), "f"(sums[4 * group + 2]),
                 "f"(sums[4 * group + 3])
                 : "memory");
  }
}

// In the order of slices.
template <typename S>
__device__ __forceinline__ void add_received(const float4* received,
                                             float (&sums)[4 * S::kGroups]) {
#pragma unroll
  for (int group = 0; group < S::kGroups; ++group) {
    float4 total = received[group * kPrefillConsumers + threadIdx.x];
#pragma unroll
    for (int slice = 1; slice < S::kSplit; ++slice) {
      const float4 part = received[(slice * S::kGroups + group) * kPrefillConsumers + threadIdx.x];
      total.x += part.x, total.y += part.y, total.z += part.z, total.w += part.w;
    }
    sums[4 * group] = total.x, sums[4 * group + 1] = total.y;
    sums[4 * group + 2] = total.z, sums[4 * group + 3] = total.w;
  }
}

}  // namespace encore::gpu
