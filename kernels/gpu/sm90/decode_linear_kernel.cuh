// The weight-streaming product's kernel. Contract in kernels/gpu/decode_linear.h; the ideas are at
// the head of decode_linear_shape.cuh.
//
// Overlap. A block asks for its ring of weights before anything else, waits for the kernel it
// depends on, and releases its own dependent shortly before its last load. So the next kernel's
// ring fills while this one's last sums are added and stored.
//
// Code size. A kernel here lasts a few microseconds, and fetching an instruction for the first time
// costs more than running it. So loops that run once are not unrolled.
//
// RMS norm. Its row factor commutes with the product, so it is applied to the sums; the kAdd
// epilogue leaves the partial sums of squares it is made from.
#pragma once

#include "launch.cuh"
#include "sm90/decode_linear_finish.cuh"
#include "sm90/decode_linear_produce.cuh"
#include "sm90/decode_linear_shape.cuh"
#include "sm90/row_factors.cuh"
#include "sm90/wgmma.cuh"

namespace encore::gpu {

// One warpgroup: acc = this row group's tiles over this block's slice of k. `round` counts the
// block's row groups, so the ring stands at round * k_steps.
//
// A stage goes back to the producer when each warp's multiplications that read it have finished
// (mma_wait), which is what makes the next copy into it safe.
template <typename S>
__device__ void multiply(const DecodeParams& p, uint32_t ring, DecodeBarriers* barriers, int round,
                         int warpgroup, float (&acc)[S::kTiles][S::kTokens / 2]) {
  const int lane = threadIdx.x % 32;
  int stage = round * p.k_steps % p.stages;
  uint32_t parity = round * p.k_steps / p.stages & 1;
  int previous = -1;
#pragma unroll 1
  for (int step = 0; step < p.k_steps; ++step) {
    const uint32_t at = ring + stage * S::kStageBytes;
    const uint64_t b = mma_descriptor(at + S::kWeightBytes);
    const uint64_t a = mma_descriptor(at + S::tile_of(warpgroup, 0) * kTileBytes);
    const int next_tile = (S::tile_of(0, 1) - S::tile_of(0, 0)) * (kTileBytes >> 4);
    barrier_wait(&barriers->full[stage], parity);
    mma_fence();
#pragma unroll
    for (int kk = 0; kk < kStepK / 16; ++kk) {  // 16 k are 32 bytes: 2 in descriptor units
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) {
        mma_shared<bf16, S::kTokens>(acc[t], a + t * next_tile + kk * 2, b + kk * 2, step + kk > 0);
      }
    }
    mma_commit();
    mma_wait<1>();
    if (previous >= 0 && lane == 0) barrier_arrive(&barriers->empty[previous]);
    previous = stage;
    if (++stage == p.stages) stage = 0, parity ^= 1;
  }
  mma_wait<0>();
  if (lane == 0) barrier_arrive(&barriers->empty[previous]);
#pragma unroll
  for (int t = 0; t < S::kTiles; ++t) mma_pin(acc[t]);
}

// Sets take turns over the block's row groups. A stage's barrier tells only odd phases from even,
// so a set starts when the other has seen the last step before its own first.
template <typename S>
__device__ void consume_direct(const DecodeParams& p, uint32_t ring, DecodeBarriers* barriers,
                               const float* scale) {
  constexpr int kTurnBarrier = 2;  // and the next: one a set
  const int set = threadIdx.x / S::kSetThreads;
  const int warpgroup = threadIdx.x % S::kSetThreads / kWarpgroupThreads;
  const int num_blocks = gridDim.x;
#pragma unroll 1
  for (int round = set, group = blockIdx.x + set * num_blocks; group < p.num_row_groups;
       round += S::kSets, group += S::kSets * num_blocks) {
    if (S::kSets == 2 && round > 0) named_barrier_sync(kTurnBarrier + set, S::kConsumers);
    float acc[S::kTiles][S::kTokens / 2];
    multiply<S>(p, ring, barriers, round, warpgroup, acc);
    if (S::kSets == 2 && group + num_blocks < p.num_row_groups) {
      named_barrier_arrive(kTurnBarrier + (set ^ 1), S::kConsumers);
    }
    barrier_wait(&barriers->scale_full, 0);
    store_direct<S>(p, acc, scale, group, warpgroup);
  }
}

// Nobody reads a peer's memory: partial sums are sent, with the receiver's barrier counting bytes.
// So a block may leave once it has received all that is its own, for then no peer sends it more.
// It must have started before others send: hence the cluster barrier, long since complete. The
// buffer is not part of the ring, which copies may still be filling when a faster peer sends. A
// block that shares k with no other (split 1) stores to its own buffer instead of sending.
template <typename S>
__device__ void consume_exchange(const DecodeParams& p, uint32_t ring, DecodeBarriers* barriers,
                                 const float* scale, float4* received) {
  const ExchangeFinish<S> finish(p, received, scale, barriers);
  FragmentAdder<S> first;
  if constexpr (S::kAdd) first = finish.first_adder();
  float acc[1][S::kTokens / 2];
  multiply<S>(p, ring, barriers, 0, static_cast<int>(threadIdx.x) / kWarpgroupThreads, acc);
  cluster_wait_started();
  send_fragments<S>(p, acc[0], received, &barriers->received,
                    static_cast<int>(blockIdx.x) % p.split);
  if constexpr (S::kAdd) {
    finish.add(first);
  } else {
    finish.store();
  }
}

template <typename S>
__device__ void init_barriers(DecodeBarriers* barriers, const DecodeParams& p) {
#pragma unroll 1
  for (int i = 0; i < p.stages; ++i) {
    barrier_init(&barriers->full[i], 1);
    barrier_init(&barriers->empty[i], S::kSetWarps);
  }
  barrier_init(&barriers->scale_full, kScaleWarps);
  barrier_init(&barriers->received, 1);
  barrier_init_fence();
  fence_async_proxy();  // the same thread's copies use them at once
  if (!S::kDirect && p.split > 1) barrier_expect(&barriers->received, S::kReceivedBytes);
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    decode_linear_kernel(const __grid_constant__ CUtensorMap w_map,
                         const __grid_constant__ CUtensorMap x_map,
                         const __grid_constant__ DecodeParams p) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = raw + (-shared_address(raw) & (kSmemAlignBytes - 1));
  const DecodeLayout at = decode_layout(S::kStageBytes, p.stages, S::kReceivedBytes, S::kTokens);
  float* scale = reinterpret_cast<float*>(smem + at.scale);
  DecodeBarriers* barriers = reinterpret_cast<DecodeBarriers*>(smem + at.barriers);
  const uint32_t ring = shared_address(smem);
  const int warp = threadIdx.x / 32;
  constexpr int kProducerWarp = S::kConsumers / 32;

  DecodeProducer<S> producer(&w_map, &x_map, p, ring, barriers);
  if (threadIdx.x == S::kConsumers) {
    init_barriers<S>(barriers, p);
    producer.load_head_weights();
  }
  __syncthreads();
  if constexpr (!S::kDirect) cluster_say_started();

  if (warp < kProducerWarp) {
    wait_for_previous_kernel();
    if constexpr (S::kDirect) {
      consume_direct<S>(p, ring, barriers, scale);
    } else {
      consume_exchange<S>(p, ring, barriers, scale, reinterpret_cast<float4*>(smem + at.received));
    }
    return;
  }
  if (warp == kProducerWarp) {
    if (threadIdx.x == S::kConsumers) producer.run();
    __syncwarp();
  } else {
    wait_for_previous_kernel();
    // With few rows each gets a warp of its own as soon as can be; more rows are read together.
    make_row_factors<kScaleWarps, S::kTokens == 8 ? 1 : 4>(p.norm, p.m, p.k, scale,
                                                           warp - kProducerWarp - 1);
    if (threadIdx.x % 32 == 0) barrier_arrive(&barriers->scale_full);  // it wrote them
  }
  if constexpr (!S::kDirect) cluster_wait_started();
}

}  // namespace encore::gpu
