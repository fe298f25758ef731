// Enqueueing a kernel, and the two device calls of programmatic dependent launch.
#pragma once

#include <utility>

#include "kernels/gpu/launch.h"
#include "vendor.h"

namespace encore::gpu {

// Every kernel calls this before it reads or writes anything that another kernel touches, and in
// every thread that goes on: then the kernel before has finished and its writes are visible. A
// kernel must not end without some thread having called it, or "finished" would not carry over to
// the kernels before that.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's thread blocks start once all of this kernel's have called it (or ended).
__device__ inline void release_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#if defined(ENCORE_GPU_CUDA)
// Arguments are converted to the kernel's own parameter types.
template <typename... Params, typename... Args>
LaunchError launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                          const Launch& launch, Args&&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = &attribute;
  config.numAttrs = launch.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Params(std::forward<Args>(args))...);
}
#elif defined(ENCORE_GPU_HIP)
template <typename... Params, typename... Args>
LaunchError launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                          const Launch& launch, Args&&... args) {
  kernel<<<grid, block, shared_bytes, static_cast<hipStream_t>(launch.stream)> > >(
      Params(std::forward<Args>(args))...);
  return hipGetLastError();
}
#elif defined(ENCORE_GPU_ON_CPU)
template <typename... Params, typename... Args>
LaunchError launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                          const Launch&, Args&&... args) {
  on_cpu::run_grid(grid, block, shared_bytes, [&] { kernel(Params(args)...); });
  return gpuSuccess;
}
#endif

}  // namespace encore::gpu
