// Clusters of thread blocks (sm_90): launch, and a barrier in two halves. More in barrier.cuh.
#pragma once

#include <utility>

#include "kernels/gpu/launch.h"
#include "vendor.h"

namespace encore::gpu {

// As launch_kernel(), in clusters of `cluster` thread blocks along x. grid.x is a multiple of it.
template <typename... Params, typename... Args>
LaunchError launch_clusters(void (*kernel)(Params...), dim3 grid, dim3 block, int cluster,
                            size_t shared_bytes, const Launch& launch, Args&&... args) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(cluster);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = attributes;
  config.numAttrs = launch.overlap ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, Params(std::forward<Args>(args))...);
}

// All threads of all blocks of the cluster arrive, then wait; shared memory written before the
// arrival is visible after the wait. A block must not end while others may read its memory.
__device__ inline void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Writes to block `rank` of the cluster, where this block holds `own`, in shared memory. It is
// there for the threads of that block that wait for a barrier at which this thread arrives
// afterwards.
__device__ inline void store_peer4(const void* own, int rank, const float4& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(own));
  asm volatile(
      "{\n.reg .b32 peer;\n"
      "mapa.shared::cluster.u32 peer, %0, %1;\n"
      "st.shared::cluster.v4.f32 [peer], {%2, %3, %4, %5};\n}" ::"r"(address),
      "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
#endif
}
__device__ inline void store_peer2(const void* own, int rank, const float2& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(own));
  asm volatile(
      "{\n.reg .b32 peer;\n"
      "mapa.shared::cluster.u32 peer, %0, %1;\n"
      "st.shared::cluster.v2.f32 [peer], {%2, %3};\n}" ::"r"(address),
      "r"(rank), "f"(value.x), "f"(value.y)
      : "memory");
#endif
}

}  // namespace encore::gpu
