// Enqueueing a kernel, and the two device calls of programmatic dependent launch.
#pragma once

#include <tuple>
#include <utility>

#include "kernels/gpu/launch.h"
#include "vendor.h"

namespace encore::gpu {

// Every kernel calls this before it reads or writes anything that another kernel touches, and in
// every thread that goes on: then the kernel before has finished and its writes are visible. What
// was written up to the attention plan alone may be read sooner (attention_plan.cu says why). A
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
  std::tuple<Params...> values(Params(std::forward<Args>(args))...);
  const auto enqueue = [&](auto&... each) {
    void* addresses[] = {&each...};
    return hipLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, addresses,
                           shared_bytes, static_cast<hipStream_t>(launch.stream));
  };
  return std::apply(enqueue, values);
}
#elif defined(ENCORE_GPU_ON_CPU)
template <typename... Params, typename... Args>
LaunchError launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                          const Launch& launch, Args&&... args) {
  on_cpu::note_kernel_type<Params...>();
  on_cpu::run_grid(grid, block, shared_bytes, launch.lanes, [&] { kernel(Params(args)...); });
  return gpuSuccess;
}
#endif

// Calls enqueue.operator()<W>(), W being the lanes of the device's warps:
//   with_lanes(launch, [&]<int W>() { return launch_kernel(some_kernel<W>, ...); })
template <typename Enqueue>
LaunchError with_lanes(const Launch& launch, const Enqueue& enqueue) {
  if (launch.lanes == 32) return enqueue.template operator()<32>();
#if !defined(ENCORE_GPU_CUDA)
  if (launch.lanes == 64) return enqueue.template operator()<64>();
#endif
  return gpuErrorInvalidValue;
}

// The least whole number of warps that has so many threads.
inline int32_t whole_warps(int32_t threads, const Launch& launch) {
  return (threads + launch.lanes - 1) / launch.lanes * launch.lanes;
}

}  // namespace encore::gpu
