// From sums over k to results. The unit is a fragment: 16 rows of w by 8 tokens, as a warp holds it
// after a multiplication. Lane i has rows i / 4 and i / 4 + 8, tokens 2 * (i % 4) and the next:
// {row 0 token 0, row 0 token 1, row 1 token 0, row 1 token 1}. For a token, lanes of equal i % 4
// touch 8 consecutive elements, and the other 8 of a 32-byte sector come right after.
#pragma once

#include "sm90/barrier.cuh"
#include "sm90/decode_linear_shape.cuh"

namespace encore::gpu {

__device__ inline float silu_times(float gate, float up) {
  return gate / (1.0F + __expf(-gate)) * up;
}

// A lane's two rows of a fragment and what belongs to them.
template <typename S>
struct FragmentRows {
  int n[2];
  bool inside[2];  // not past the last output
  float bias[2] = {};
  float up_bias[2] = {};
  float norm_weight[2] = {};

  FragmentRows() = default;
  __device__ FragmentRows(const DecodeParams& p, int first_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      n[half] = first_row + half * 8 + threadIdx.x % 32 / 4;
      inside[half] = n[half] < S::out_n(p);
      if (!inside[half]) continue;
      if (p.bias != nullptr) {
        bias[half] = to_float(p.bias[n[half]]);
        if (S::kSilu) up_bias[half] = to_float(p.bias[S::out_n(p) + n[half]]);
      }
      if (S::kAdd && p.x_out != nullptr) norm_weight[half] = to_float(p.norm_weight[n[half]]);
    }
  }
};

// y = epilogue of a fragment, for kStore and kSiluMul. `up` is read for kSiluMul only.
template <typename S>
__device__ void store_fragment(const DecodeParams& p, const FragmentRows<S>& rows, int first_token,
                               const float* sum, const float* up, const float* scale) {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const int token = first_token + threadIdx.x % 4 * 2 + c;
    if (token >= p.m) continue;
    const float factor = scale[token];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!rows.inside[half]) continue;
      float value = sum[half * 2 + c] * factor + rows.bias[half];
      if constexpr (S::kSilu) {
        value = silu_times(value, up[half * 2 + c] * factor + rows.up_bias[half]);
      }
      const size_t to = static_cast<size_t>(token) * S::out_n(p) + rows.n[half];
      if (!S::kSilu && p.store_f32) {
        static_cast<float*>(p.y)[to] = value;
      } else {
        static_cast<bf16*>(p.y)[to] = to_bf16(value);
      }
    }
  }
}

// ---- direct: a warpgroup stores the sums it holds ----

template <typename S>
__device__ void store_direct(const DecodeParams& p, const float (&acc)[S::kTiles][S::kTokens / 2],
                             const float* scale, int group, int warpgroup) {
  constexpr int kOut = S::kSilu ? 1 : S::kTiles;
#pragma unroll
  for (int t = 0; t < kOut; ++t) {
    const int tile = S::kSilu ? warpgroup : S::tile_of(warpgroup, t);
    const FragmentRows<S> rows(
        p, (group * S::kOutTiles + tile) * kMmaRows + static_cast<int>(threadIdx.x) / 32 % 4 * 16);
#pragma unroll
    for (int j = 0; j < S::kTokens / 8; ++j) {
      if (8 * j >= p.m) break;
      store_fragment<S>(p, rows, 8 * j, &acc[t][4 * j], &acc[S::kTiles - 1][4 * j], scale);
    }
  }
}

// ---- exchange: the blocks of a cluster send each other what they have ----

// Where fragments lie in a block's receive buffer: [source rank][fragment row block][8
// tokens][lane] float4. A rank finishes a fixed 64 / split rows of every tile, `row_blocks`
// fragments in all.
template <typename S>
struct Received {
  static constexpr int kTokenBlocks = S::kTokens / 8;
  int per_tile, row_blocks;

  __device__ explicit Received(int split)
      : per_tile(4 / split), row_blocks(S::kRowTiles * per_tile) {}
  __device__ int at(int source, int row_block, int j) const {
    return ((source * row_blocks + row_block) * kTokenBlocks + j) * 32 +
           static_cast<int>(threadIdx.x) % 32;
  }
  // Adds up in rank order.
  __device__ void sum(const float4* received, int split, int row_block, int j, float* out) const {
    float4 parts[kMaxSplit];
#pragma unroll
    for (int source = 0; source < kMaxSplit; ++source) {
      parts[source] = source < split ? received[at(source, row_block, j)] : float4{};
    }
    float4 total = parts[0];
#pragma unroll
    for (int source = 1; source < kMaxSplit; ++source) {
      if (source >= split) continue;
      total.x += parts[source].x, total.y += parts[source].y;
      total.z += parts[source].z, total.w += parts[source].w;
    }
    out[0] = total.x, out[1] = total.y, out[2] = total.z, out[3] = total.w;
  }
};

// A warp has 16 rows of its tile, which one rank finishes.
template <typename S>
__device__ void send_fragments(const DecodeParams& p, const float (&acc)[S::kTokens / 2],
                               float4* received, const uint64_t* barrier, int rank) {
  const Received<S> where(p.split);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int tile = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  const int peer = warp / where.per_tile;
  const int row_block = tile * where.per_tile + warp % where.per_tile;
  if (p.split == 1) {
#pragma unroll
    for (int j = 0; j < S::kTokens / 8; ++j) {
      const float* v = &acc[4 * j];
      received[where.at(0, row_block, j)] = {v[0], v[1], v[2], v[3]};
    }
    return;
  }
  const uint32_t peer_barrier = peer_address(barrier, peer);
#pragma unroll
  for (int j = 0; j < S::kTokens / 8; ++j) {
    send_to_peer(peer_address(received + where.at(rank, row_block, j), peer), peer_barrier,
                 &acc[4 * j]);
  }
}

// kAdd of a fragment by a warp: y += sum, and what the next product reads.
template <typename S>
class FragmentAdder {
 public:
  FragmentAdder() = default;
  // Reads what y was; memory answers while the sums are made.
  __device__ FragmentAdder(const DecodeParams& p, int first_row, int first_token)
      : rows_(p, first_row), first_token_(first_token) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (live(p, i)) old_[i] = static_cast<const bf16*>(p.y)[at(p, i)];
    }
  }
  // Gives lane i < 8 the sum of squares of token `first_token` + i over the fragment's rows.
  __device__ float store(const DecodeParams& p, const float* sum, const float* scale) const {
    float sumsq[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!live(p, i)) continue;
      const float value = sum[i] * scale[token(i)] + rows_.bias[i / 2];
      const bf16 y = to_bf16(to_float(old_[i]) + value);
      static_cast<bf16*>(p.y)[at(p, i)] = y;
      if (p.x_out == nullptr) continue;
      const float rounded = to_float(y);
      p.x_out[at(p, i)] = to_bf16(rounded * rows_.norm_weight[i / 2]);
      sumsq[i % 2] += rounded * rounded;
    }
#pragma unroll
    for (int d = 4; d < 32; d *= 2) {
      sumsq[0] += __shfl_xor_sync(0xffffffffU, sumsq[0], d);
      sumsq[1] += __shfl_xor_sync(0xffffffffU, sumsq[1], d);
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float even = __shfl_sync(0xffffffffU, sumsq[0], lane / 2 % 4);
    const float odd = __shfl_sync(0xffffffffU, sumsq[1], lane / 2 % 4);
    return lane % 2 == 0 ? even : odd;
  }

 private:
  __device__ int token(int i) const { return first_token_ + threadIdx.x % 4 * 2 + i % 2; }
  __device__ bool live(const DecodeParams& p, int i) const {
    return rows_.inside[i / 2] && token(i) < p.m;
  }
  __device__ size_t at(const DecodeParams& p, int i) const {
    return static_cast<size_t>(token(i)) * p.n + rows_.n[i / 2];
  }

  FragmentRows<S> rows_;
  int first_token_;
  bf16 old_[4];
};

// What a block does once all partial sums for it have come: its fragments of live tokens,
// `row_blocks` for each 8 tokens, are dealt out to the consumer warps.
template <typename S>
class ExchangeFinish {
 public:
  __device__ ExchangeFinish(const DecodeParams& p, float4* received, const float* scale,
                            DecodeBarriers* barriers)
      : p_(p),
        where_(p.split),
        received_(received),
        scale_(scale),
        barriers_(barriers),
        rank_(static_cast<int>(blockIdx.x) % p.split),
        group_(static_cast<int>(blockIdx.x) / p.split),
        row_blocks_(S::kOutTiles * where_.per_tile),
        num_fragments_((p.m + 7) / 8 * row_blocks_) {}

  // kAdd: the first fragment's reads, to be had long before its sums.
  __device__ FragmentAdder<S> first_adder() const {
    return first() < num_fragments_ ? adder(first()) : FragmentAdder<S>{};
  }

  __device__ void store() const {
    wait();
#pragma unroll 1
    for (int f = first(); f < num_fragments_; f += S::kSetWarps) {
      float sum[4];
      float up[4] = {};
      where_.sum(received_, p_.split, row_block(f), token_block(f), sum);
      if constexpr (S::kSilu) {
        where_.sum(received_, p_.split, where_.per_tile + row_block(f), token_block(f), up);
      }
      store_fragment<S>(p_, FragmentRows<S>(p_, first_row(f)), 8 * token_block(f), sum, up, scale_);
    }
  }

  __device__ void add(FragmentAdder<S> next) const {
    wait();
#pragma unroll 1
    for (int f = first(); f < num_fragments_; f += S::kSetWarps) {
      const FragmentAdder<S> now = next;
      if (f + S::kSetWarps < num_fragments_) next = adder(f + S::kSetWarps);
      float sum[4];
      where_.sum(received_, p_.split, row_block(f), token_block(f), sum);
      const float sumsq = now.store(p_, sum, scale_);
      // Only this warp reads this fragment, so its place can carry the sum of squares.
      __syncwarp();
      if (threadIdx.x % 32 < 8) *sumsq_of(row_block(f), token_block(f), threadIdx.x % 32) = sumsq;
    }
    if (p_.x_out == nullptr) return;
    named_barrier_sync(1, S::kConsumers);
    const int token = threadIdx.x;
    if (token >= p_.m) return;
    float total = 0.0F;
#pragma unroll 1
    for (int i = 0; i < row_blocks_; ++i) total += *sumsq_of(i, token / 8, token % 8);
    p_.sumsq_out[static_cast<size_t>(token) * p_.num_row_groups * p_.split + group_ * p_.split +
                 rank_] = total;
  }

 private:
  __device__ static int first() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ int row_block(int f) const { return f % row_blocks_; }
  __device__ int token_block(int f) const { return f / row_blocks_; }
  __device__ int first_row(int f) const {
    const int tile = row_block(f) / where_.per_tile;
    return (group_ * S::kOutTiles + tile) * kMmaRows +
           (rank_ * where_.per_tile + row_block(f) % where_.per_tile) * 16;
  }
  __device__ FragmentAdder<S> adder(int f) const { return {p_, first_row(f), 8 * token_block(f)}; }
  __device__ float* sumsq_of(int row_block, int token_block, int i) const {
    return reinterpret_cast<float*>(received_ + (row_block * (S::kTokens / 8) + token_block) * 32) +
           i;
  }
  __device__ void wait() const {
    if (p_.split > 1) {
      barrier_wait_cluster(&barriers_->received, 0);
    } else {
      named_barrier_sync(1, S::kConsumers);
    }
    barrier_wait(&barriers_->scale_full, 0);
  }

  const DecodeParams& p_;
  Received<S> where_;
  float4* received_;
  const float* scale_;
  DecodeBarriers* barriers_;
  int rank_, group_, row_blocks_, num_fragments_;
};

}  // namespace encore::gpu
