// The split product's kernel. Contract in kernels/gpu/split_linear.h; the ideas are at the head of
// split_linear_shape.cuh.
//
// A block asks for its ring of weights before anything else, while the kernel before may still run.
//
// Nobody reads a peer's memory: sums are sent, with the receiver's barrier counting bytes. So a
// block may leave once it has received all that is its own, for then no peer sends it more. It must
// have started before others send: hence the cluster barrier, long since complete.
#pragma once

#include "launch.cuh"
#include "sm90/split_linear_finish.cuh"
#include "sm90/split_linear_produce.cuh"
#include "sm90/split_linear_shape.cuh"

namespace encore::gpu {

template <typename S>
__device__ void init_split_barriers(SplitBarriers* barriers, int part) {
  init_ring<S>(barriers, 1);
  barrier_init(&barriers->received, 1);
  barrier_init_fence();
  fence_async_proxy();  // the same thread's copies use them at once
  using Groups = typename S::Groups;
  barrier_expect(&barriers->received, (Groups::first(part + 1) - Groups::first(part)) *
                                          (S::kParts - 1) * Groups::kSumBytes);
}

template <typename S>
__device__ __forceinline__ void consume_split(const SplitParams& p, const SplitPlace& place,
                                              SplitMemory<S>& memory) {
  wait_for_previous_kernel();
  SplitFinish<S> finish(p, place, memory.received, &memory.barriers);
  TileMultiplier<S> multiplier(shared_address(memory.ring), &memory.barriers, place.part, 1);
  typename TileMultiplier<S>::Sums sums;
#pragma unroll 1
  for (int step = 0; step < place.num_steps; ++step) multiplier.multiply(sums, step);
  multiplier.finish(sums);
  cluster_wait_started();
  finish.send(sums);
  finish.store();
}

template <typename S>
__global__ void __launch_bounds__(kSplitThreads, 1)
    split_linear_kernel(const __grid_constant__ CUtensorMap w_map,
                        const __grid_constant__ CUtensorMap x_map,
                        const __grid_constant__ SplitParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  ENCORE_GPU_DYNAMIC_SHARED(SplitMemory<S>, memory);
  const SplitPlace place(p, static_cast<int>(cluster_rank()), S::kParts);
  const SplitProducer<S> producer(&w_map, &x_map, place, shared_address(memory->ring),
                                  &memory->barriers);
  if (threadIdx.x == kTileConsumers) {
    init_split_barriers<S>(&memory->barriers, place.part);
    producer.load_head();
  }
  __syncthreads();
  cluster_say_started();
  if (threadIdx.x < kTileConsumers) {
    consume_split<S>(p, place, *memory);
    return;
  }
  if (threadIdx.x == kTileConsumers) producer.run();
  __syncwarp();
  cluster_wait_started();
#endif
}

}  // namespace encore::gpu
