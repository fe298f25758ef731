// The decode chain's two copying threads and its warps that make row factors.
#pragma once

#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/decode_chain_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

__device__ inline uint32_t load_acquire(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
// What this thread knows of ordinary stores to global memory is made known to copies of tiles.
__device__ inline void fence_async_proxy_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// A stage of the ring and the parity of its current use.
struct RingPosition {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

// Calls f(product, tile, step in the tile) for each of this block's steps from product `first` on.
template <typename F>
__device__ void for_each_step(const ChainParams& p, int product, const F& f) {
  const ChainProduct& cut = p.product[product];
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int begin = chain_first_step(cut, block, blocks);
  const int end = chain_first_step(cut, block + 1, blocks);
  int tile = begin / cut.tile_steps;
  int step = begin % cut.tile_steps;
  for (int i = begin; i < end; ++i) {
    f(tile, step);
    if (++step == cut.tile_steps) step = 0, ++tile;
  }
}

// One thread: weights, which depend on nothing, as soon as there is room for them.
template <int kTokens>
__device__ void produce_weights(const ChainMaps& maps, const ChainParams& p, uint32_t ring,
                                ChainBarriers* barriers) {
  const uint64_t policy = evict_first_policy();
  RingPosition at;
  for (int product = 0; product < p.num_products; ++product) {
    const bool silu = product == kChainGateUp;
    for_each_step(p, product, [&](int tile, int step) {
      // In its first use a stage is free: the barrier's phase before the first counts as over.
      barrier_wait(&barriers->empty[at.stage], at.parity ^ 1);
      uint64_t* full = &barriers->full[at.stage];
      const uint32_t to = ring + at.stage * chain_stage_bytes(kTokens);
      barrier_expect(full, kChainWeightBytes);
      const int k = step * (silu ? kStepK : 2 * kStepK);
      const int row = tile * kMmaRows;
      load_tile_2d(to, &maps.w[product], full, k, row, policy);
      load_tile_2d(to + kTileBytes, &maps.w[product], full, silu ? k : k + kStepK,
                   silu ? row + p.inter_size : row, policy);
      at.advance(p.stages);
    });
  }
  release_next_kernel();
}

// Waits until the product before has finished all its tiles.
__device__ inline void await_input(const ChainParams& p, int product) {
  const auto tiles = static_cast<uint32_t>(p.product[product - 1].tiles);
  while (load_acquire(&p.control->ready[product]) != tiles) {
  }
  fence_async_proxy_global();
}

// This block will not read `control` again; the last to say so prepares it for the next run.
__device__ inline void leave_control(const ChainParams& p, uint32_t epoch) {
  ChainControl* control = p.control;
  __threadfence();
  if (atomicAdd(&control->done, 1U) + 1 != gridDim.x) return;
  __threadfence();
  for (uint32_t& ready : control->ready) ready = 0;
  control->done = 0;
  control->epoch = epoch + 1;
}

// One thread: x, once it has been made, beside the weights that wait for it.
template <int kTokens>
__device__ void produce_x(const ChainMaps& maps, const ChainParams& p, uint32_t ring,
                          ChainBarriers* barriers, uint32_t* shared_epoch) {
  wait_for_previous_kernel();
  const uint32_t epoch = load_acquire(&p.control->epoch);
  *shared_epoch = epoch;
  const uint64_t policy = evict_last_policy();
  RingPosition at;
  for (int product = 0; product < p.num_products; ++product) {
    const bool silu = product == kChainGateUp;
    if (product > 0) await_input(p, product);
    barrier_arrive(&barriers->ready[product]);
    if (product == p.num_products - 1) leave_control(p, epoch);
    constexpr int kBoxBytes = chain_x_bytes(kTokens) / 2;
    for_each_step(p, product, [&](int, int step) {
      barrier_wait(&barriers->empty[at.stage], at.parity ^ 1);
      uint64_t* full = &barriers->full[at.stage];
      const uint32_t to = ring + at.stage * chain_stage_bytes(kTokens) + kChainWeightBytes;
      barrier_expect(full, silu ? kBoxBytes : 2 * kBoxBytes);
      const int k = step * (silu ? kStepK : 2 * kStepK);
      load_tile_2d(to, &maps.x[product], full, k, 0, policy);
      if (!silu) load_tile_2d(to + kBoxBytes, &maps.x[product], full, k + kStepK, 0, policy);
      at.advance(p.stages);
    });
  }
}

// kChainScaleWarps warps: scale[which][token] = 1 / rms of hidden, for gate_up and for qkv. Eight
// tokens a warp at a time, four lanes each; added in one order for every m.
template <int kTokens>
__device__ void compute_scales(const ChainParams& p, float* scale, ChainBarriers* barriers,
                               int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int parts = p.hidden_size / kMmaRows;
  for (int product = kChainGateUp; product < p.num_products; product += 2) {
    const int which = product / 2;
    barrier_wait(&barriers->ready[product], 0);
    for (int first = warp * 8; first < kTokens; first += kChainScaleWarps * 8) {
      const int token = first + lane / 4;
      float sum = 0.0F;
      if (token < p.m) {
        const float* row = p.sumsq[which] + static_cast<size_t>(token) * parts;
#pragma unroll 8
        for (int i = lane % 4; i < parts; i += 4) sum += __ldcg(row + i);
      }
      sum += __shfl_xor_sync(0xffffffffU, sum, 1);
      sum += __shfl_xor_sync(0xffffffffU, sum, 2);
      if (lane % 4 == 0) {
        scale[which * kTokens + token] = rsqrtf(sum / static_cast<float>(p.hidden_size) + p.eps);
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&barriers->scale_full[which]);
  }
}

}  // namespace encore::gpu
