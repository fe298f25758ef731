// From sums of gate and up to results. A lane holds, of 8 columns (a group), two in each of two
// rows; four lanes hold a row. They swap, so that each has all 8 columns of one of four groups and
// moves 16 bytes at once.
#pragma once

#include "sm90/gated_linear_shape.cuh"

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
  const bf16x2 both = to_bf16x2(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ inline float2 unpack_pair(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const bf16x2*>(&pair));
}
__device__ inline float silu_mul(float gate, float up) {
  return __fdividef(gate, 1.0F + __expf(-gate)) * up;
}

// kN words (2 or 4) of a row of y.
template <int kN>
__device__ inline void store_words(bf16* row, int column, const uint32_t (&v)[kN]) {
  if constexpr (kN == 4) {
    *reinterpret_cast<uint4*>(row + column) = make_uint4(v[0], v[1], v[2], v[3]);
  } else {
    *reinterpret_cast<uint2*>(row + column) = make_uint2(v[0], v[1]);
  }
}

// The bias of two columns of y; `offset` leads from gate to up.
__device__ __forceinline__ float2 gated_bias(const GatedParams& p, int column, int offset) {
  if (p.bias == nullptr || column >= p.out_n) return {0.0F, 0.0F};
  return unpack_pair(*reinterpret_cast<const uint32_t*>(p.bias + offset + column));
}

// A lane's part of a tile, two rows of S::kOutGroups groups of columns, in slices that are worked
// off under the products of the tile after. Until then gate and up wait as bf16.
template <typename S>
class GatedFinish {
 public:
  static constexpr int kQuads = S::kOutGroups / 4;
  static constexpr bool kPair = S::kOutGroups % 4 == 2;
  static constexpr int kSlices = 2 * kQuads + (kPair ? 1 : 0);  // a row of a quad; the pair

  __device__ explicit GatedFinish(const GatedParams& p)
      : p_(p), lane_(static_cast<int>(threadIdx.x) % 4) {}

  // `row`, `column`: the tile's first. The slices of what was taken before must be done.
  __device__ __forceinline__ void take(float (&sums)[4 * S::kGroups], int row, int column,
                                       int live) {
    row_ = row;
    column_ = column;
    live_ = live;
    if (p_.bias != nullptr) add_bias(sums);
#pragma unroll
    for (int group = 0; group < S::kOutGroups; ++group) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* gate = &sums[4 * group + 2 * i];
        const float* up = &sums[4 * (group + S::kOutGroups) + 2 * i];
        gate_[i][group] = pack_pair(gate[0], gate[1]);
        up_[i][group] = pack_pair(up[0], up[1]);
      }
    }
  }

  template <int kSlice>
  __device__ __forceinline__ void slice() const {
    if constexpr (kSlice < 2 * kQuads) {
      store<4>(kSlice / 2 * 4, kSlice % 2);
    } else {
      store<2>(kQuads * 4, 0);
      store<2>(kQuads * 4, 1);
    }
  }

 private:
  // Keeps the compiler from unpacking all that waits long before its slice: there are no registers
  // for that.
  __device__ __forceinline__ static uint32_t held(uint32_t word) {
    asm volatile("" : "+r"(word));
    return word;
  }

  __device__ __forceinline__ void add_bias(float (&sums)[4 * S::kGroups]) const {
#pragma unroll
    for (int group = 0; group < S::kGroups; ++group) {
      const float2 bias = gated_bias(p_, column_ + 8 * (group % S::kOutGroups) + 2 * lane_,
                                     group < S::kOutGroups ? 0 : p_.out_n);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[4 * group + i] += i % 2 == 0 ? bias.x : bias.y;
    }
  }

  template <int kN>
  __device__ __forceinline__ void store(int group, int i) const {
    uint32_t words[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const float2 gate = unpack_pair(held(gate_[i][group + j]));
      const float2 up = unpack_pair(held(up_[i][group + j]));
      words[j] = pack_pair(silu_mul(gate.x, up.x), silu_mul(gate.y, up.y));
    }
    transpose(words);
    const int row = row_ + static_cast<int>(threadIdx.x) / 32 * 16 +
                    static_cast<int>(threadIdx.x) % 32 / 4 + 8 * i;
    const int column = column_ + 8 * (group + lane_ % kN) + (kN == 2 ? lane_ / 2 * 4 : 0);
    if (row >= live_ || column >= p_.out_n) return;
    store_words<kN>(p_.y + static_cast<size_t>(row) * p_.out_n, column, words);
  }

  const GatedParams& p_;
  const int lane_;
  int row_ = 0;
  int column_ = 0;
  int live_ = 0;  // nothing taken: no row is live
  uint32_t gate_[2][S::kOutGroups] = {};
  uint32_t up_[2][S::kOutGroups] = {};
};

}  // namespace encore::gpu
