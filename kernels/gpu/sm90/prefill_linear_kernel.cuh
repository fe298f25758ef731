// The prefill product's kernel. Contract in kernels/gpu/prefill_linear.h; the ideas are at the head
// of prefill_linear_shape.cuh.
//
// While consumers turn a tile's sums into results, the ring fills with the next tile's operands.
#pragma once

#include "launch.cuh"
#include "sm90/cluster.cuh"
#include "sm90/prefill_linear_finish.cuh"
#include "sm90/prefill_linear_mma.cuh"
#include "sm90/prefill_linear_produce.cuh"
#include "sm90/prefill_linear_shape.cuh"
#include "sm90/wgmma.cuh"

namespace encore::gpu {

template <typename S>
class PrefillConsumer {
 public:
  __device__ PrefillConsumer(const PrefillParams& p, uint32_t ring, const float4* received,
                             PrefillBarriers* barriers, int rank)
      : p_(p),
        ring_(ring),
        received_(received),
        barriers_(barriers),
        place_(p, rank),
        group_(static_cast<int>(threadIdx.x) / kPrefillGroupThreads) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int rows = p.row_blocks;
    if (lane < p.column_blocks) {
      source_ = prefill_rank(p, place_.row, lane, place_.slice);
    } else if (lane < p.column_blocks + rows - 1) {
      source_ = prefill_rank(p, rows - 1 - place_.row, place_.column, place_.slice);
    }
  }

  // Whether there was a tile.
  __device__ __forceinline__ bool run() {
    wait_for_previous_kernel();
    const int live = prefill_live(p_);
    PrefillWalk walk(p_, live);
    const bool found = !walk.done();
    for (; !walk.done(); walk.next()) {
      const int row = (walk.row() + place_.row) * kPrefillTileM;
      const int column =
          (walk.column() + place_.column) * S::kOutTileN + place_.slice * S::kOutGroups * 8;
      PrefillFinish<S> finish(p_, row, column, live);
      float sums[4 * S::kTileGroups];
      const int tail = min(kTailSteps, p_.k_steps);
      multiply(sums, 0, p_.k_steps - tail);
      finish.load();
      multiply(sums, p_.k_steps - tail, p_.k_steps);
      mma_wait<0>();
      mma_pin(sums);
      release();
      if constexpr (S::kSplit == 1) {
        finish.store(sums);
      } else {
        exchange(sums, finish);
      }
    }
    return found;
  }

 private:
  // Long enough to read y under.
  static constexpr int kTailSteps = 3;

  // Steps [first, last) of a tile; the last one's products may still run.
  //
  // A stage goes back when the products that read it have finished, which is when those of the next
  // step have been issued.
  __device__ __forceinline__ void multiply(float (&sums)[4 * S::kTileGroups], int first, int last) {
#pragma unroll 1
    for (int step = first; step < last; ++step) {
      const uint32_t stage = ring_ + at_.stage * S::kStageBytes;
      const uint64_t a = mma_descriptor(stage + group_ * kPrefillGroupRows * kPrefillRowBytes);
      const uint64_t b = mma_descriptor(stage + kPrefillXBytes);
      barrier_wait(&barriers_->full[at_.stage], at_.parity);
      mma_fence();
#pragma unroll
      for (int i = 0; i < kPrefillStepK / 16; ++i) {  // 16 k are 32 bytes: 2 in descriptor units
        mma_wide<S::kTileN>(sums, a + 2 * i, b + 2 * i, step + i > 0);
      }
      mma_commit();
      mma_wait<1>();
      if (step > 0) release();
      held_ = at_.stage;
      at_.advance();
    }
  }

  // Gives the stage of the step before back to all blocks whose copies fill it.
  __device__ void release() const {
    if (source_ >= 0) barrier_arrive_peer(&barriers_->empty[held_], source_);
  }

  // One tile a cluster: nobody's copies or products touch the ring any more.
  __device__ __forceinline__ void exchange(const float (&sums)[4 * S::kTileGroups],
                                           PrefillFinish<S>& finish) const {
    cluster_arrive();
    cluster_wait();
    send_sums<S>(p_, place_, received_, sums);
    cluster_arrive();
    cluster_wait();
    float total[4 * S::kGroups];
    add_received<S>(received_, total);
    finish.store(total);
  }

  const PrefillParams& p_;
  const uint32_t ring_;
  const float4* const received_;
  PrefillBarriers* const barriers_;
  const PrefillPlace place_;
  const int group_;
  int source_ = -1;  // the block that this lane tells of free stages
  int held_ = 0;     // stage of the step whose products may still run
  PrefillStage<S> at_;
};

template <typename S>
__device__ void init_prefill_barriers(PrefillBarriers* barriers, const PrefillParams& p) {
  const int num_warps = kPrefillConsumers / 32 * (p.column_blocks + p.row_blocks - 1);
  for (int i = 0; i < S::kStages; ++i) {
    barrier_init(&barriers->full[i], 1);
    barrier_init(&barriers->empty[i], num_warps);
  }
  barrier_init_fence();
  fence_async_proxy();
}

// The last barriers of the cluster, for threads that exchange no sums: a block's memory must stay
// while peers' copies, arrivals or sums may come.
template <typename S>
__device__ void pass_cluster_barriers() {
#pragma unroll
  for (int i = 0; i < (S::kSplit == 1 ? 1 : 2); ++i) {
    cluster_arrive();
    cluster_wait();
  }
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksPerSm)
    prefill_linear_kernel(const __grid_constant__ CUtensorMap w_map,
                          const __grid_constant__ CUtensorMap x_map,
                          const __grid_constant__ PrefillParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, smem);
  auto* barriers = reinterpret_cast<PrefillBarriers*>(smem + S::kRingBytes);
  const uint32_t ring = shared_address(smem);
  const int rank = static_cast<int>(cluster_rank());
  if (threadIdx.x == kPrefillConsumers) {
    prefetch_map(&w_map);
    prefetch_map(&x_map);
    init_prefill_barriers<S>(barriers, p);
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x >= kPrefillConsumers) {
    if constexpr (S::kMovesRegisters) release_registers<S::kProducerRegisters>();
    if (threadIdx.x == kPrefillConsumers) {
      PrefillProducer<S>(&w_map, &x_map, p, ring, barriers, rank).run();
    }
    __syncwarp();
    pass_cluster_barriers<S>();
  } else {
    if constexpr (S::kMovesRegisters) take_registers<S::kConsumerRegisters>();
    PrefillConsumer<S> consumer(p, ring, reinterpret_cast<const float4*>(smem), barriers, rank);
    const bool exchanged = consumer.run() && S::kSplit > 1;
    if (!exchanged) pass_cluster_barriers<S>();
  }
#endif
}

}  // namespace encore::gpu
