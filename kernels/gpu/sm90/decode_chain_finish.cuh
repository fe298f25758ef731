// How the decode chain's blocks bring a tile's sums together, and what becomes of them.
//
// Registers hold fragments (see wgmma.cuh): `sum[4 * j + i]` of a lane is row i / 2 and token
// 8 * j + i % 2 of those that begin at its own.
#pragma once

#include "sm90/barrier.cuh"
#include "sm90/decode_chain_produce.cuh"
#include "sm90/decode_chain_shape.cuh"

namespace encore::gpu {

// ---- sums between blocks ----
//
// Every value travels with a tag in one 8-byte access, so the receiver needs neither a flag nor a
// fence: it reads until the tag is the one of this run and product. A block's mailbox is free again
// by the next product: that one's input took the sums of all blocks.

__device__ inline uint64_t tagged(float value, uint32_t tag) {
  return static_cast<uint64_t>(tag) << 32 | __float_as_uint(value);
}
__device__ inline void store_pair(uint64_t* to, uint64_t a, uint64_t b) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
}
__device__ inline void load_pair(const uint64_t* from, uint64_t* a, uint64_t* b) {
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(*a), "=l"(*b)
               : "l"(from)
               : "memory");
}

// A mailbox: [accumulator and 8 tokens][half of the rows][thread] pairs of tokens.
__device__ inline uint64_t* mail_at(uint64_t* box, int fragment, int half) {
  return box + ((fragment * 2 + half) * kWarpgroupThreads + static_cast<int>(threadIdx.x)) * 2;
}
__device__ inline int lane_token() { return static_cast<int>(threadIdx.x) % 4 * 2; }

template <int kTokens, int kAccs>
__device__ void send_sums(const ChainParams& p, uint32_t tag,
                          const float (&acc)[kAccs][kTokens / 2]) {
  uint64_t* box = p.mail + static_cast<size_t>(blockIdx.x) * chain_mail_words(kTokens);
#pragma unroll
  for (int a = 0; a < kAccs; ++a) {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      if (8 * j + lane_token() >= p.m) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* v = &acc[a][4 * j + 2 * half];
        store_pair(mail_at(box, a * (kTokens / 8) + j, half), tagged(v[0], tag), tagged(v[1], tag));
      }
    }
  }
}

// Adds what block `from` sent. A few fragments at a time, so that their reads overlap.
template <int kTokens, int kAccs>
__device__ void add_sums(const ChainParams& p, uint32_t tag, int from,
                         float (&acc)[kAccs][kTokens / 2]) {
  constexpr int kFragments = kAccs * kTokens / 8;
  constexpr int kAtOnce = kFragments < 4 ? kFragments : 4;
  uint64_t* box = p.mail + static_cast<size_t>(from) * chain_mail_words(kTokens);
#pragma unroll
  for (int first = 0; first < kFragments; first += kAtOnce) {
    uint64_t got[kAtOnce][4];
    bool all;
    do {
      all = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int token = (first + i) % (kTokens / 8) * 8 + lane_token();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (token >= p.m) continue;
          load_pair(mail_at(box, first + i, half), &got[i][2 * half], &got[i][2 * half + 1]);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int token = (first + i) % (kTokens / 8) * 8 + lane_token();
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          all = all && (token >= p.m || static_cast<uint32_t>(got[i][c] >> 32) == tag);
        }
      }
    } while (!all);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int a = (first + i) / (kTokens / 8);
      const int j = (first + i) % (kTokens / 8);
      if (8 * j + lane_token() >= p.m) continue;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        acc[a][4 * j + c] += __uint_as_float(static_cast<uint32_t>(got[i][c]));
      }
    }
  }
}

// ---- results ----

// One more finished tile of the input of `product`. By a warp whose block's threads have passed a
// barrier after their stores and fence_async_proxy_global().
__device__ inline void announce_tile(const ChainParams& p, int product) {
  __syncwarp();
  if (threadIdx.x % 32 != 0 || product >= p.num_products) return;
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&p.control->ready[product])
               : "memory");
}

__device__ inline int lane_row(int tile, int half) {
  const int thread = static_cast<int>(threadIdx.x);
  return tile * kMmaRows + thread / 32 * 16 + thread % 32 / 4 + half * 8;
}

constexpr int kFinishBarrier = 1;

// act = silu(gate) * up
template <int kTokens>
__device__ void finish_silu(const ChainParams& p, int tile, const float (&acc)[2][kTokens / 2],
                            const float* scale) {
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane_token() + i % 2;
      if (token >= p.m) continue;
      const float gate = acc[0][4 * j + i] * scale[token];
      const float up = acc[1][4 * j + i] * scale[token];
      p.act[static_cast<size_t>(token) * p.inter_size + lane_row(tile, i / 2)] =
          __float2bfloat16(gate / (1.0F + __expf(-gate)) * up);
    }
  }
  fence_async_proxy_global();
  named_barrier_sync(kFinishBarrier, kWarpgroupThreads);
  if (threadIdx.x < 32) announce_tile(p, kChainDown);
}

template <int kTokens>
__device__ void finish_qkv(const ChainParams& p, int tile, const float (&acc)[1][kTokens / 2],
                           const float* scale) {
  float bias[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (p.qkv_bias != nullptr) bias[half] = __bfloat162float(p.qkv_bias[lane_row(tile, half)]);
  }
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane_token() + i % 2;
      if (token >= p.m) continue;
      p.qkv[static_cast<size_t>(token) * p.qkv_size + lane_row(tile, i / 2)] =
          __float2bfloat16(acc[0][4 * j + i] * scale[token] + bias[i / 2]);
    }
  }
}

// hidden += sums, and what the next product and its norm read.
template <int kTokens>
class HiddenUpdate {
 public:
  // Asks for what hidden was; memory answers while other blocks' sums come.
  __device__ HiddenUpdate(const ChainParams& p, int which, int tile)
      : p_(p), which_(which), tile_(tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      norm_[half] = __bfloat162float(p.norm[which][lane_row(tile, half)]);
    }
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (token(j, i) < p_.m) {
          old_[4 * j + i] = __ushort_as_bfloat16(
              __ldcg(reinterpret_cast<const unsigned short*>(p_.hidden + at(j, i))));
        }
      }
    }
  }

  // `sums`: [4][kTokens] in shared memory, not the one of the call before.
  __device__ void store(const float (&acc)[1][kTokens / 2], float* sums) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      float sumsq[2] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (token(j, i) >= p_.m) continue;
        const bf16 hidden = __float2bfloat16(__bfloat162float(old_[4 * j + i]) + acc[0][4 * j + i]);
        const float rounded = __bfloat162float(hidden);
        p_.hidden[at(j, i)] = hidden;
        p_.normed[at(j, i)] = __float2bfloat16(rounded * norm_[i / 2]);
        sumsq[i % 2] += rounded * rounded;
      }
#pragma unroll
      for (int d = 4; d < 32; d *= 2) {
        sumsq[0] += __shfl_xor_sync(0xffffffffU, sumsq[0], d);
        sumsq[1] += __shfl_xor_sync(0xffffffffU, sumsq[1], d);
      }
      if (threadIdx.x % 32 < 4) {
        sums[warp * kTokens + 8 * j + lane_token()] = sumsq[0];
        sums[warp * kTokens + 8 * j + lane_token() + 1] = sumsq[1];
      }
    }
    fence_async_proxy_global();
    named_barrier_sync(kFinishBarrier, kWarpgroupThreads);
    if (warp == 0) store_sumsq(sums);
  }

 private:
  __device__ static int token(int j, int i) { return 8 * j + lane_token() + i % 2; }
  __device__ size_t at(int j, int i) const {
    return static_cast<size_t>(token(j, i)) * p_.hidden_size + lane_row(tile_, i / 2);
  }
  __device__ void store_sumsq(const float* sums) const {
    for (int t = static_cast<int>(threadIdx.x); t < p_.m; t += 32) {
      const float total =
          (sums[t] + sums[kTokens + t]) + (sums[2 * kTokens + t] + sums[3 * kTokens + t]);
      p_.sumsq[which_][static_cast<size_t>(t) * (p_.hidden_size / kMmaRows) + tile_] = total;
    }
    announce_tile(p_, which_ == 0 ? kChainGateUp : kChainQkv);
  }

  const ChainParams& p_;
  int which_, tile_;
  float norm_[2];
  bf16 old_[kTokens / 2];
};

}  // namespace encore::gpu
