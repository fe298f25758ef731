// From accumulators to results: directly, or by way of an exchange of partial sums in the cluster.
#pragma once

#include "sm90/barrier.cuh"
#include "sm90/decode_linear_shape.cuh"

namespace encore::gpu {

// The two halves of cluster_sync(). Every thread of the cluster does both, in turn; warps whole.
__device__ inline void cluster_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

struct alignas(8) Bf16x4 {
  bf16x2 low, high;
};
__device__ inline Bf16x4 to_bf16x4(float4 v) {
  return {__floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w)};
}
__device__ inline float4 to_float4(Bf16x4 v) {
  const float2 low = __bfloat1622float2(v.low);
  const float2 high = __bfloat1622float2(v.high);
  return {low.x, low.y, high.x, high.y};
}
__device__ inline float silu_times(float gate, float up) {
  return gate / (1.0F + __expf(-gate)) * up;
}
__device__ inline float4 silu_times(float4 gate, float4 up) {
  return {silu_times(gate.x, up.x), silu_times(gate.y, up.y), silu_times(gate.z, up.z),
          silu_times(gate.w, up.w)};
}
__device__ inline float4 scale_and_add(float4 v, float scale, float4 bias) {
  return {v.x * scale + bias.x, v.y * scale + bias.y, v.z * scale + bias.z, v.w * scale + bias.w};
}

// ---- direct ----

// A warpgroup stores the sums it holds. Of a tile's 16 rows a warp, a thread has two (8 apart), and
// of each 8 tokens two neighbours: see wgmma.cuh. For a token the lanes of equal lane % 4 write 8
// consecutive elements, and the other 8 of the 32-byte sector follow.
template <typename S>
__device__ void store_direct(const DecodeParams& p, const float (&acc)[S::kTiles][S::kTokens / 2],
                             const float* scale, int group, int warpgroup) {
  constexpr int kOut = S::kSilu ? 1 : S::kTiles;
  const int warp = threadIdx.x / 32 % 4;
  const int lane = threadIdx.x % 32;
  const int out_n = S::kSilu ? p.n / 2 : p.n;
#pragma unroll
  for (int t = 0; t < kOut; ++t) {
    const int tile = S::kSilu ? warpgroup : S::tile_of(warpgroup, t);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = (group * S::kOutTiles + tile) * kMmaRows + warp * 16 + half * 8 + lane / 4;
      if (n >= out_n) continue;
      const float bias = p.bias == nullptr ? 0.0F : __bfloat162float(p.bias[n]);
      const float up_bias =
          S::kSilu && p.bias != nullptr ? __bfloat162float(p.bias[out_n + n]) : 0.0F;
#pragma unroll
      for (int i = 0; i < S::kTokens / 4; ++i) {
        const int token = i / 2 * 8 + lane % 4 * 2 + i % 2;
        if (token >= p.m) continue;
        const int at = i / 2 * 4 + half * 2 + i % 2;
        float value = acc[t][at] * scale[token] + bias;
        if constexpr (S::kSilu) {
          value = silu_times(value, acc[1][at] * scale[token] + up_bias);
        }
        const size_t to = static_cast<size_t>(token) * out_n + n;
        if (!S::kSilu && p.store_f32) {
          static_cast<float*>(p.y)[to] = value;
        } else {
          static_cast<bf16*>(p.y)[to] = __float2bfloat16(value);
        }
      }
    }
  }
}

// ---- exchange ----

// Where a thread works after the exchange: four consecutive rows of w (two times four for
// kSiluMul), of which this block finishes 64 / split a tile; of tokens `first_token`, + step, ...
template <typename S>
struct ExchangeUnit {
  // Tokens a thread does at once. With split 1 it may have twice as many.
  static constexpr int kUnits = S::kTokens > 16 ? S::kTokens / 16 : 1;
  int row, tile, n, first_token, token_step, units_per_token, num_units;
  bool inside;  // n is not past the end

  __device__ ExchangeUnit(const DecodeParams& p, int group, int rank, int thread) {
    const int units_per_tile = kMmaRows / 4 / p.split;
    units_per_token = S::kOutTiles * units_per_tile;
    const int unit = thread % units_per_token;
    tile = unit / units_per_tile;
    row = rank * (kMmaRows / p.split) + unit % units_per_tile * 4;
    n = (group * S::kOutTiles + tile) * kMmaRows + row;
    inside = n < (S::kSilu ? p.n / 2 : p.n);
    first_token = thread / units_per_token;
    token_step = S::kSetThreads / units_per_token;
    num_units = (S::kTokens + token_step - 1) / token_step;
  }
  __device__ int token(int i) const { return first_token + i * token_step; }
};

// Column-major, so that a token's rows are contiguous.
template <typename S>
__device__ void write_partial(const float (&acc)[S::kTokens / 2], float* partial, int tile) {
  const int warp = threadIdx.x / 32 % 4;
  const int lane = threadIdx.x % 32;
  float* mine = partial + tile * S::kTokens * kPartialStride + warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < S::kTokens / 8; ++j) {
    float* column = mine + (8 * j + lane % 4 * 2) * kPartialStride;
    column[0] = acc[4 * j];
    column[kPartialStride] = acc[4 * j + 1];
    column[8] = acc[4 * j + 2];
    column[kPartialStride + 8] = acc[4 * j + 3];
  }
}

// Sum over the cluster of one unit, in rank order. All loads go out before the first is used.
template <typename S>
__device__ float4 sum_partials(const DecodeParams& p, const float* partial, int tile, int token,
                               int row) {
  const float* mine = partial + (tile * S::kTokens + token) * kPartialStride + row;
  float4 parts[kMaxSplit];
#pragma unroll
  for (int rank = 0; rank < kMaxSplit; ++rank) {
    if (rank < p.split) parts[rank] = load_peer(peer_address(mine, rank));
  }
  float4 sum = parts[0];
#pragma unroll
  for (int rank = 1; rank < kMaxSplit; ++rank) {
    if (rank >= p.split) break;
    sum.x += parts[rank].x, sum.y += parts[rank].y;
    sum.z += parts[rank].z, sum.w += parts[rank].w;
  }
  return sum;
}

// Adds `value` to y, and leaves what the next product reads. The units of one token are lanes next
// to each other, a power of two of them.
template <typename S>
__device__ void store_added(const DecodeParams& p, const ExchangeUnit<S>& unit, int token,
                            float4 value, Bf16x4 old, Bf16x4 norm_weight, int group, int rank) {
  const size_t to = static_cast<size_t>(token) * p.n + unit.n;
  float sumsq = 0.0F;
  if (unit.inside && token < p.m) {
    const float4 before = to_float4(old);
    const Bf16x4 sum =
        to_bf16x4({before.x + value.x, before.y + value.y, before.z + value.z, before.w + value.w});
    *reinterpret_cast<Bf16x4*>(static_cast<bf16*>(p.y) + to) = sum;
    if (p.x_out != nullptr) {
      const float4 f = to_float4(sum);
      const float4 g = to_float4(norm_weight);
      *reinterpret_cast<Bf16x4*>(p.x_out + to) =
          to_bf16x4({f.x * g.x, f.y * g.y, f.z * g.z, f.w * g.w});
      sumsq = (f.x * f.x + f.y * f.y) + (f.z * f.z + f.w * f.w);
    }
  }
  if (p.x_out == nullptr) return;
  for (int d = 1; d < unit.units_per_token; d *= 2) {
    sumsq += __shfl_xor_sync(0xffffffffU, sumsq, d);
  }
  if (threadIdx.x % unit.units_per_token == 0 && token < p.m) {
    p.sumsq_out[static_cast<size_t>(token) * p.num_row_groups * p.split + group * p.split + rank] =
        sumsq;
  }
}

// What the epilogue of a thread's units reads from memory.
template <typename S>
struct ExchangeInputs {
  static constexpr bool kAdd = S::kEpilogue == DecodeEpilogue::kAdd;
  float4 bias = {};
  float4 up_bias = {};
  Bf16x4 norm_weight = {};
  Bf16x4 old[ExchangeUnit<S>::kUnits] = {};

  __device__ ExchangeInputs(const DecodeParams& p, const ExchangeUnit<S>& unit) {
    if (!unit.inside) return;
    if (p.bias != nullptr) {
      bias = to_float4(*reinterpret_cast<const Bf16x4*>(p.bias + unit.n));
      if constexpr (S::kSilu) {
        up_bias = to_float4(*reinterpret_cast<const Bf16x4*>(p.bias + p.n / 2 + unit.n));
      }
    }
    if (kAdd && p.x_out != nullptr) {
      norm_weight = *reinterpret_cast<const Bf16x4*>(p.norm_weight + unit.n);
    }
  }
  __device__ void load_old(const DecodeParams& p, const ExchangeUnit<S>& unit, int first) {
#pragma unroll
    for (int i = 0; i < ExchangeUnit<S>::kUnits; ++i) {
      const int token = unit.token(first + i);
      if (!unit.inside || token >= p.m) continue;
      old[i] = *reinterpret_cast<const Bf16x4*>(static_cast<const bf16*>(p.y) +
                                                static_cast<size_t>(token) * p.n + unit.n);
    }
  }
};

template <typename S>
__device__ void store_unit(const DecodeParams& p, const ExchangeUnit<S>& unit, int token,
                           float4 value) {
  if (!unit.inside || token >= p.m) return;
  const size_t to = static_cast<size_t>(token) * (S::kSilu ? p.n / 2 : p.n) + unit.n;
  if (!S::kSilu && p.store_f32) {
    *reinterpret_cast<float4*>(static_cast<float*>(p.y) + to) = value;
  } else {
    *reinterpret_cast<Bf16x4*>(static_cast<bf16*>(p.y) + to) = to_bf16x4(value);
  }
}

// All consumers of the block, with their partial sums in acc. Two cluster barriers, in which the
// helper warps take part too: after the first, every block's partial sums are there; after the
// second, every block has read them, so none leaves (and gives its memory back) too early.
//
// The partial sums overwrite the ring. That is safe: each of this block's consumers has waited for
// every copy into the ring (no copy is on its way), and the barrier of consumers comes after all
// their multiplications have finished reading it. No copy follows, so no proxy fence is needed.
template <typename S>
__device__ void exchange_and_store(const DecodeParams& p, const float (&acc)[S::kTokens / 2],
                                   float* partial, const float* scale, DecodeBarriers* barriers) {
  constexpr int kUnits = ExchangeUnit<S>::kUnits;
  const int rank = static_cast<int>(blockIdx.x) % p.split;
  const int group = static_cast<int>(blockIdx.x) / p.split;
  named_barrier_sync(1, S::kConsumers);
  write_partial<S>(acc, partial, threadIdx.x / kWarpgroupThreads);
  cluster_arrive();

  const ExchangeUnit<S> unit(p, group, rank, threadIdx.x);
  ExchangeInputs<S> inputs(p, unit);
  for (int first = 0; first < unit.num_units; first += kUnits) {
    if constexpr (ExchangeInputs<S>::kAdd) inputs.load_old(p, unit, first);
    if (first == 0) cluster_wait();  // the loads above arrive while the cluster gathers

    float4 sums[kUnits] = {};
    float4 up_sums[kUnits] = {};
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int token = unit.token(first + i);
      if (token >= p.m) continue;
      sums[i] = sum_partials<S>(p, partial, unit.tile, token, unit.row);
      if constexpr (S::kSilu) up_sums[i] = sum_partials<S>(p, partial, 1, token, unit.row);
    }
    if (first + kUnits >= unit.num_units) cluster_arrive();

    barrier_wait(&barriers->scale_full, 0);
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int token = unit.token(first + i);
      const float factor = token < p.m ? scale[token] : 0.0F;
      float4 value = scale_and_add(sums[i], factor, inputs.bias);
      if constexpr (ExchangeInputs<S>::kAdd) {
        store_added<S>(p, unit, token, value, inputs.old[i], inputs.norm_weight, group, rank);
      } else {
        if constexpr (S::kSilu) {
          value = silu_times(value, scale_and_add(up_sums[i], factor, inputs.up_bias));
        }
        store_unit<S>(p, unit, token, value);
      }
    }
  }
  cluster_wait();
}

}  // namespace encore::gpu
