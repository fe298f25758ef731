// The gated product's kernel. Contract in kernels/gpu/gated_linear.h; the ideas are at the head of
// gated_linear_shape.cuh.
//
// While consumers work, the ring fills with the next tile's operands; a tile's results they make
// under the next tile's products, which leave the arithmetic units idle.
#pragma once

#include <utility>

#include "launch.cuh"
#include "sm90/cluster.cuh"
#include "sm90/gated_linear_finish.cuh"
#include "sm90/gated_linear_mma.cuh"
#include "sm90/gated_linear_produce.cuh"
#include "sm90/gated_linear_shape.cuh"
#include "sm90/wgmma.cuh"

namespace encore::gpu {

template <typename S>
class GatedConsumer {
 public:
  __device__ GatedConsumer(const GatedParams& p, uint32_t ring, GatedBarriers* barriers, int rank)
      : p_(p),
        ring_(ring),
        barriers_(barriers),
        rank_(rank),
        group_(static_cast<int>(threadIdx.x) / kGatedGroupThreads),
        tells_(static_cast<int>(threadIdx.x) % 32 < p.row_blocks) {}

  __device__ __forceinline__ void run() {
    wait_for_previous_kernel();
    const int live = gated_live(p_);
    GatedFinish<S> finish(p_);
    constexpr std::make_integer_sequence<int, GatedFinish<S>::kSlices> kAll;
    for (GatedWalk walk(p_, live); !walk.done(); walk.next()) {
      float sums[4 * S::kGroups];
      multiply_under(sums, finish, kAll);
      multiply(sums, GatedFinish<S>::kSlices, p_.k_steps);
      mma_wait<0>();
      mma_pin(sums);
      release();
      finish.take(sums, (walk.row() + rank_) * kGatedTileM, walk.column() * S::kOutTileN, live);
    }
    finish_all(finish, kAll);
  }

 private:
  using Sums = float[4 * S::kGroups];
  static_assert(GatedFinish<S>::kSlices * kGatedStepK <= kGatedMinK);

  // The first steps of a tile, with the slices of the tile before.
  template <int... kSlice>
  __device__ __forceinline__ void multiply_under(Sums& sums, const GatedFinish<S>& finish,
                                                 std::integer_sequence<int, kSlice...>) {
    ((multiply_step(sums, kSlice), finish.template slice<kSlice>()), ...);
  }
  template <int... kSlice>
  __device__ __forceinline__ static void finish_all(const GatedFinish<S>& finish,
                                                    std::integer_sequence<int, kSlice...>) {
    (finish.template slice<kSlice>(), ...);
  }

  // Steps [first, last) of a tile; the last one's products may still run.
  __device__ __forceinline__ void multiply(Sums& sums, int first, int last) {
#pragma unroll 1
    for (int step = first; step < last; ++step) multiply_step(sums, step);
  }

  // A stage goes back when the products that read it have finished, which is when those of the next
  // step have been issued.
  __device__ __forceinline__ void multiply_step(Sums& sums, int step) {
    const uint32_t stage = ring_ + at_.stage * S::kStageBytes;
    const uint64_t a = mma_descriptor(stage + group_ * kGatedGroupRows * kGatedRowBytes);
    const uint64_t b = mma_descriptor(stage + kGatedXBytes);
    barrier_wait(&barriers_->full[at_.stage], at_.parity);
    mma_fence();
#pragma unroll
    for (int i = 0; i < kGatedStepK / 16; ++i) {  // 16 k are 32 bytes: 2 in descriptor units
      mma_wide<S::kTileN>(sums, a + 2 * i, b + 2 * i, step + i > 0);
    }
    mma_commit();
    mma_wait<1>();
    if (step > 0) release();
    held_ = at_.stage;
    at_.advance();
  }

  // Gives the stage of the step before back to the blocks whose copies fill it.
  __device__ void release() const {
    if (tells_) barrier_arrive_peer(&barriers_->empty[held_], static_cast<int>(threadIdx.x) % 32);
  }

  const GatedParams& p_;
  const uint32_t ring_;
  GatedBarriers* const barriers_;
  const int rank_;
  const int group_;
  const bool tells_;  // this lane tells the block of its number of free stages
  int held_ = 0;      // stage of the step whose products may still run
  GatedStage<S> at_;
};

template <typename S>
__device__ void init_gated_barriers(GatedBarriers* barriers, const GatedParams& p) {
  for (int i = 0; i < S::kStages; ++i) {
    barrier_init(&barriers->full[i], 1);
    barrier_init(&barriers->empty[i], kGatedConsumers / 32 * p.row_blocks);
  }
  barrier_init_fence();
  fence_async_proxy();
}

template <typename S>
__global__ void __launch_bounds__(kGatedThreads, 1)
    gated_linear_kernel(const __grid_constant__ CUtensorMap w_map,
                        const __grid_constant__ CUtensorMap x_map,
                        const __grid_constant__ GatedParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, smem);
  auto* barriers = reinterpret_cast<GatedBarriers*>(smem + S::kRingBytes);
  const uint32_t ring = shared_address(smem);
  const int rank = static_cast<int>(cluster_rank());
  if (threadIdx.x == kGatedConsumers) {
    prefetch_map(&w_map);
    prefetch_map(&x_map);
    init_gated_barriers<S>(barriers, p);
  }
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x >= kGatedConsumers) {
    release_registers<S::kProducerRegisters>();
    if (threadIdx.x == kGatedConsumers) {
      GatedProducer<S>(&w_map, &x_map, p, ring, barriers, rank).run();
    }
    __syncwarp();
  } else {
    take_registers<S::kConsumerRegisters>();
    GatedConsumer<S>(p, ring, barriers, rank).run();
  }
  // A block's memory must stay while its peer's copies or arrivals may come.
  cluster_arrive();
  cluster_wait();
#endif
}

}  // namespace encore::gpu
