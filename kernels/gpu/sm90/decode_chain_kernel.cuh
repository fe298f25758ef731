// The decode chain's kernel. Contract in kernels/gpu/decode_chain.h; how work is cut at the head of
// decode_chain_shape.cuh.
//
// One block a multiprocessor. A warpgroup multiplies; one thread copies weights and never waits for
// anything but room; another copies x beside them, after the blocks before have counted themselves
// ready. While a product's input is being made the ring fills with its weights: at 227 KB a block
// that is 6 us of reading, and an input takes about 5 (last sums, their way to the block that
// finishes the tile, the count, x).
#pragma once

#include "launch.cuh"
#include "sm90/decode_chain_finish.cuh"
#include "sm90/decode_chain_produce.cuh"
#include "sm90/decode_chain_shape.cuh"
#include "sm90/wgmma.cuh"

namespace encore::gpu {

// The consumers' view of a block.
struct ChainBlock {
  uint32_t ring;
  ChainBarriers* barriers;
  const float* scale;
  float* sums;
  const uint32_t* epoch;
  RingPosition at;
  int num_updates = 0;  // which half of `sums` is next
};

// acc = `steps` steps from the ring. One accumulator: 128 deep in k; two: gate and up, 64 deep.
template <int kTokens, int kAccs>
__device__ void multiply_segment(const ChainParams& p, ChainBlock& block, int steps,
                                 float (&acc)[kAccs][kTokens / 2]) {
  constexpr int kXBoxBytes = chain_x_bytes(kTokens) / 2;
  const bool first_lane = threadIdx.x % 32 == 0;
  int previous = -1;
#pragma unroll
  for (int i = 0; i < kAccs * kTokens / 2; ++i) acc[i / (kTokens / 2)][i % (kTokens / 2)] = 0.0F;
  for (int step = 0; step < steps; ++step) {
    const uint32_t stage = block.ring + block.at.stage * chain_stage_bytes(kTokens);
    const uint64_t a = mma_descriptor(stage);
    const uint64_t b = mma_descriptor(stage + kChainWeightBytes);
    barrier_wait(&block.barriers->full[block.at.stage], block.at.parity);
    mma_fence();
#pragma unroll
    for (int box = 0; box < 2; ++box) {
#pragma unroll
      for (int kk = 0; kk < kStepK / 16; ++kk) {  // 16 k are 32 bytes: 2 in descriptor units
        mma_shared<bf16, kTokens>(acc[kAccs == 1 ? 0 : box], a + box * (kTileBytes >> 4) + kk * 2,
                                  b + (kAccs == 1 ? box * (kXBoxBytes >> 4) : 0) + kk * 2, true);
      }
    }
    mma_commit();
    mma_wait<1>();
    if (previous >= 0 && first_lane) barrier_arrive(&block.barriers->empty[previous]);
    previous = block.at.stage;
    block.at.advance(p.stages);
  }
  mma_wait<0>();
  if (first_lane) barrier_arrive(&block.barriers->empty[previous]);
#pragma unroll
  for (int i = 0; i < kAccs; ++i) mma_pin(acc[i]);
}

// Adds the other blocks' segments of a tile, the last one's first: it has been there longest.
template <int kTokens, int kAccs>
__device__ void gather_sums(const ChainParams& p, int product, int tile, uint32_t tag,
                            float (&acc)[kAccs][kTokens / 2]) {
  const ChainProduct& cut = p.product[product];
  const int blocks = static_cast<int>(gridDim.x);
  const int own = static_cast<int>(blockIdx.x);
  int last = own;
  while (last + 1 < blocks &&
         chain_first_step(cut, last + 1, blocks) < (tile + 1) * cut.tile_steps) {
    ++last;
  }
  for (int from = last; from > own; --from) add_sums<kTokens, kAccs>(p, tag, from, acc);
}

template <int kTokens, int kProduct>
__device__ void finish_tile(const ChainParams& p, ChainBlock& block, int tile, uint32_t tag,
                            float (&acc)[kProduct == kChainGateUp ? 2 : 1][kTokens / 2]) {
  constexpr bool kAdds = kProduct == kChainO || kProduct == kChainDown;
  constexpr int kWhich = kProduct / 2;
  if constexpr (kAdds) {
    const HiddenUpdate<kTokens> update(p, kWhich, tile);
    gather_sums<kTokens>(p, kProduct, tile, tag, acc);
    update.store(acc, block.sums + (block.num_updates++ & 1) * 4 * kTokens);
  } else {
    gather_sums<kTokens>(p, kProduct, tile, tag, acc);
    barrier_wait(&block.barriers->scale_full[kWhich], 0);
    const float* scale = block.scale + kWhich * kTokens;
    if constexpr (kProduct == kChainGateUp) finish_silu<kTokens>(p, tile, acc, scale);
    if constexpr (kProduct == kChainQkv) finish_qkv<kTokens>(p, tile, acc, scale);
  }
}

// This block's range of a product, segment by segment.
template <int kTokens, int kProduct>
__device__ void consume_product(const ChainParams& p, ChainBlock& block) {
  constexpr int kAccs = kProduct == kChainGateUp ? 2 : 1;
  const ChainProduct& cut = p.product[kProduct];
  int begin = chain_first_step(cut, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  const int end =
      chain_first_step(cut, static_cast<int>(blockIdx.x) + 1, static_cast<int>(gridDim.x));
  while (begin < end) {
    const int tile = begin / cut.tile_steps;
    const int step = begin % cut.tile_steps;
    const int steps = min(cut.tile_steps - step, end - begin);
    float acc[kAccs][kTokens / 2];
    multiply_segment<kTokens, kAccs>(p, block, steps, acc);
    const uint32_t tag = *block.epoch * kChainProducts + kProduct + 1;
    if (step > 0) {
      send_sums<kTokens, kAccs>(p, tag, acc);
    } else {
      finish_tile<kTokens, kProduct>(p, block, tile, tag, acc);
    }
    begin += steps;
  }
}

__device__ inline void init_chain_barriers(ChainBarriers* barriers, int stages) {
  for (int i = 0; i < stages; ++i) {
    barrier_init(&barriers->full[i], 2);  // weights, x
    barrier_init(&barriers->empty[i], kWarpgroupThreads / 32);
  }
  for (uint64_t& ready : barriers->ready) barrier_init(&ready, 1);
  for (uint64_t& full : barriers->scale_full) barrier_init(&full, kChainScaleWarps);
  barrier_init_fence();
  fence_async_proxy();
}

template <int kTokens>
__global__ void __launch_bounds__(kChainThreads, 1)
    decode_chain_kernel(const __grid_constant__ ChainMaps maps,
                        const __grid_constant__ ChainParams p) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = raw + (-shared_address(raw) & (kSmemAlignBytes - 1));
  const ChainLayout at = chain_layout(p.stages, kTokens);
  float* scale = reinterpret_cast<float*>(smem + at.scale);
  ChainBarriers* barriers = reinterpret_cast<ChainBarriers*>(smem + at.barriers);
  uint32_t* epoch = reinterpret_cast<uint32_t*>(smem + at.epoch);
  const uint32_t ring = shared_address(smem);

  constexpr int kWeightThread = kWarpgroupThreads;
  constexpr int kXThread = kWeightThread + 32;
  if (threadIdx.x == kWeightThread) init_chain_barriers(barriers, p.stages);
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    wait_for_previous_kernel();
    ChainBlock block{ring, barriers, scale, reinterpret_cast<float*>(smem + at.sums), epoch, {}};
    consume_product<kTokens, kChainO>(p, block);
    consume_product<kTokens, kChainGateUp>(p, block);
    consume_product<kTokens, kChainDown>(p, block);
    if (p.num_products > kChainQkv) consume_product<kTokens, kChainQkv>(p, block);
  } else if (threadIdx.x == kWeightThread) {
    produce_weights<kTokens>(maps, p, ring, barriers);
  } else if (threadIdx.x == kXThread) {
    produce_x<kTokens>(maps, p, ring, barriers, epoch);
  } else if (threadIdx.x >= kXThread + 32) {
    wait_for_previous_kernel();
    const int warp = (static_cast<int>(threadIdx.x) - kXThread - 32) / 32;
    compute_scales<kTokens>(p, scale, barriers, warp);
  }
}

}  // namespace encore::gpu
