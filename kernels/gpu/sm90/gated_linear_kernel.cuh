// The gated product's kernel. Contract in kernels/gpu/gated_linear.h; the ideas are at the head of
// gated_linear_shape.cuh.
//
// While consumers work, the ring fills with the next tile's operands; a tile's results they make
// under the next tile's products, which leave the arithmetic units idle. A block's first tile has a
// loop of its own, short enough to be there at once: a kernel's instructions come from memory.
#pragma once

#include <utility>

#include "launch.cuh"
#include "sm90/gated_linear_finish.cuh"
#include "sm90/gated_linear_produce.cuh"
#include "sm90/gated_linear_shape.cuh"
#include "sm90/tile_product.cuh"

namespace encore::gpu {

template <typename S>
class GatedConsumer {
 public:
  __device__ GatedConsumer(const GatedParams& p, uint32_t ring, TileBarriers* barriers, int rank)
      : p_(p), rank_(rank), multiplier_(ring, barriers, 0, p.row_blocks) {}

  __device__ __forceinline__ void run() {
    wait_for_previous_kernel();
    const int live = live_rows(p_.live, p_.m);
    GatedFinish<S> finish(p_);
    constexpr std::make_integer_sequence<int, GatedFinish<S>::kSlices> kAll;
    GatedWalk walk(p_, live);
    if (walk.done()) return;
    const auto take = [&](Sums& sums) {
      finish.take(sums, (walk.row() + rank_) * kTileM, walk.column() * S::kOutTileN, live);
    };
    {
      Sums sums;
      multiply_from(sums, 0);
      take(sums);
    }
    for (walk.next(); !walk.done(); walk.next()) {
      Sums sums;
      multiply_under(sums, finish, kAll);
      multiply_from(sums, GatedFinish<S>::kSlices);
      take(sums);
    }
    finish_all(finish, kAll);
  }

 private:
  using Sums = typename TileMultiplier<S>::Sums;
  static_assert(GatedFinish<S>::kSlices * kTileStepK <= kGatedMinK);

  // The steps of a tile from `step` on, and their end.
  __device__ __forceinline__ void multiply_from(Sums& sums, int step) {
#pragma unroll 1
    for (; step < p_.k_steps; ++step) multiplier_.multiply(sums, step);
    multiplier_.finish(sums);
  }
  // The first steps of a tile, with the slices of the tile before.
  template <int... kSlice>
  __device__ __forceinline__ void multiply_under(Sums& sums, const GatedFinish<S>& finish,
                                                 std::integer_sequence<int, kSlice...>) {
    ((multiplier_.multiply(sums, kSlice), finish.template slice<kSlice>()), ...);
  }
  template <int... kSlice>
  __device__ __forceinline__ static void finish_all(const GatedFinish<S>& finish,
                                                    std::integer_sequence<int, kSlice...>) {
    (finish.template slice<kSlice>(), ...);
  }

  const GatedParams& p_;
  const int rank_;
  TileMultiplier<S> multiplier_;
};

template <typename S>
__global__ void __launch_bounds__(kGatedThreads, 1)
    gated_linear_kernel(const __grid_constant__ CUtensorMap w_map,
                        const __grid_constant__ CUtensorMap x_map,
                        const __grid_constant__ GatedParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  ENCORE_GPU_DYNAMIC_SHARED(unsigned char, smem);
  auto* barriers = reinterpret_cast<TileBarriers*>(smem + S::kRingBytes);
  const uint32_t ring = shared_address(smem);
  const int rank = static_cast<int>(cluster_rank());
  if (threadIdx.x == kTileConsumers) {
    prefetch_map(&w_map);
    prefetch_map(&x_map);
    init_ring<S>(barriers, p.row_blocks);
    barrier_init_fence();
    fence_async_proxy();
  }
  __syncthreads();
  if (p.row_blocks > 1) {
    cluster_say_started();
    cluster_wait_started();
  }
  if (threadIdx.x >= kTileConsumers) {
    release_registers<S::kProducerRegisters>();
    if (threadIdx.x == kTileConsumers) {
      GatedProducer<S>(&w_map, &x_map, p, ring, barriers, rank).run();
    }
    __syncwarp();
  } else {
    take_registers<S::kConsumerRegisters>();
    GatedConsumer<S>(p, ring, barriers, rank).run();
  }
  // A block's memory must stay while its peer's copies or arrivals may come.
  if (p.row_blocks > 1) cluster_sync();
#endif
}

}  // namespace encore::gpu
