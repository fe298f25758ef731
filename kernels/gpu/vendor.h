// The one place where a vendor's names appear in GPU code: kernels and the run-time layer say gpu*,
// and this header says what that is. NVIDIA: CUDA. AMD: HIP, version 5.2 or later.
#pragma once

#include <cstdint>

#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#define ENCORE_GPU_HIP 1
#if defined(__HIP__)
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#else  // host code without kernels, by any compiler
#include <hip/hip_runtime_api.h>
#endif
#define ENCORE_GPU_NAME(name) hip##name
#elif defined(ENCORE_GPU_ON_CPU)
#include "gpu_on_cpu.h"  // tests: kernels compiled for the host, threads as fibers
#else
#define ENCORE_GPU_CUDA 1
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define ENCORE_GPU_NAME(name) cuda##name
#endif

#if defined(ENCORE_GPU_NAME)
using gpuError_t = ENCORE_GPU_NAME(Error_t);
using gpuStream_t = ENCORE_GPU_NAME(Stream_t);
using gpuEvent_t = ENCORE_GPU_NAME(Event_t);
using gpuGraph_t = ENCORE_GPU_NAME(Graph_t);
using gpuGraphExec_t = ENCORE_GPU_NAME(GraphExec_t);
using gpuGraphNode_t = ENCORE_GPU_NAME(GraphNode_t);
inline constexpr gpuError_t gpuSuccess = ENCORE_GPU_NAME(Success);

#define gpuDeviceCanAccessPeer ENCORE_GPU_NAME(DeviceCanAccessPeer)
#define gpuDeviceEnablePeerAccess ENCORE_GPU_NAME(DeviceEnablePeerAccess)
#define gpuDeviceGetAttribute ENCORE_GPU_NAME(DeviceGetAttribute)
#define gpuDeviceGetPCIBusId ENCORE_GPU_NAME(DeviceGetPCIBusId)
#define gpuDeviceSynchronize ENCORE_GPU_NAME(DeviceSynchronize)
#define gpuEventCreateWithFlags ENCORE_GPU_NAME(EventCreateWithFlags)
#define gpuEventDestroy ENCORE_GPU_NAME(EventDestroy)
#define gpuEventElapsedTime ENCORE_GPU_NAME(EventElapsedTime)
#define gpuEventQuery ENCORE_GPU_NAME(EventQuery)
#define gpuEventRecord ENCORE_GPU_NAME(EventRecord)
#define gpuEventSynchronize ENCORE_GPU_NAME(EventSynchronize)
#define gpuFree ENCORE_GPU_NAME(Free)
#define gpuFreeAsync ENCORE_GPU_NAME(FreeAsync)
#define gpuGetDevice ENCORE_GPU_NAME(GetDevice)
#define gpuGetDeviceCount ENCORE_GPU_NAME(GetDeviceCount)
#define gpuGetErrorName ENCORE_GPU_NAME(GetErrorName)
#define gpuGetErrorString ENCORE_GPU_NAME(GetErrorString)
#define gpuGetLastError ENCORE_GPU_NAME(GetLastError)
#define gpuGraphDestroy ENCORE_GPU_NAME(GraphDestroy)
#define gpuGraphExecDestroy ENCORE_GPU_NAME(GraphExecDestroy)
#define gpuGraphGetNodes ENCORE_GPU_NAME(GraphGetNodes)
#define gpuGraphLaunch ENCORE_GPU_NAME(GraphLaunch)
#define gpuMalloc ENCORE_GPU_NAME(Malloc)
#define gpuMallocAsync ENCORE_GPU_NAME(MallocAsync)
#define gpuMemGetInfo ENCORE_GPU_NAME(MemGetInfo)
#define gpuMemcpyAsync ENCORE_GPU_NAME(MemcpyAsync)
#define gpuMemsetAsync ENCORE_GPU_NAME(MemsetAsync)
#define gpuSetDevice ENCORE_GPU_NAME(SetDevice)
#define gpuStreamBeginCapture ENCORE_GPU_NAME(StreamBeginCapture)
#define gpuStreamCreateWithFlags ENCORE_GPU_NAME(StreamCreateWithFlags)
#define gpuStreamDestroy ENCORE_GPU_NAME(StreamDestroy)
#define gpuStreamEndCapture ENCORE_GPU_NAME(StreamEndCapture)
#define gpuStreamQuery ENCORE_GPU_NAME(StreamQuery)
#define gpuStreamSynchronize ENCORE_GPU_NAME(StreamSynchronize)
#define gpuStreamWaitEvent ENCORE_GPU_NAME(StreamWaitEvent)

#define gpuErrorPeerAccessAlreadyEnabled ENCORE_GPU_NAME(ErrorPeerAccessAlreadyEnabled)
#define gpuEventDisableTiming ENCORE_GPU_NAME(EventDisableTiming)
#define gpuErrorInvalidValue ENCORE_GPU_NAME(ErrorInvalidValue)
#define gpuErrorNotReady ENCORE_GPU_NAME(ErrorNotReady)
#define gpuFuncAttributeMaxDynamicSharedMemorySize \
  ENCORE_GPU_NAME(FuncAttributeMaxDynamicSharedMemorySize)
#define gpuMemcpyDefault ENCORE_GPU_NAME(MemcpyDefault)
#define gpuMemcpyDeviceToDevice ENCORE_GPU_NAME(MemcpyDeviceToDevice)
#define gpuMemcpyDeviceToHost ENCORE_GPU_NAME(MemcpyDeviceToHost)
#define gpuMemcpyHostToDevice ENCORE_GPU_NAME(MemcpyHostToDevice)
#define gpuStreamCaptureModeThreadLocal ENCORE_GPU_NAME(StreamCaptureModeThreadLocal)
#define gpuStreamNonBlocking ENCORE_GPU_NAME(StreamNonBlocking)

// What the two spell differently.
#if defined(ENCORE_GPU_HIP)
inline constexpr gpuError_t gpuErrorOutOfMemory = hipErrorOutOfMemory;
inline constexpr auto gpuAttributeMultiprocessors = hipDeviceAttributeMultiprocessorCount;
inline constexpr auto gpuAttributeWarpSize = hipDeviceAttributeWarpSize;
#define gpuFreeHost hipHostFree
#define gpuHostAlloc hipHostMalloc
template <typename Kernel>
gpuError_t gpuFuncSetAttribute(Kernel* kernel, hipFuncAttribute attribute, int value) {
  return hipFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph) {
  return hipGraphInstantiate(executable, graph, nullptr, nullptr, 0);
}
// Prepares the first launch. HIP 5 may lack it; there the first launch does what it would have.
inline gpuError_t gpuGraphUpload([[maybe_unused]] gpuGraphExec_t executable,
                                 [[maybe_unused]] gpuStream_t stream) {
#if HIP_VERSION_MAJOR >= 6
  return hipGraphUpload(executable, stream);
#else
  return gpuSuccess;
#endif
}
// What a capture on the stream has recorded so far; null without a capture.
inline gpuError_t gpuCapturedGraph(gpuStream_t stream, gpuGraph_t* graph) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  return hipStreamGetCaptureInfo_v2(stream, &status, nullptr, graph, nullptr, nullptr);
}
#else
inline constexpr gpuError_t gpuErrorOutOfMemory = cudaErrorMemoryAllocation;
inline constexpr auto gpuAttributeMultiprocessors = cudaDevAttrMultiProcessorCount;
inline constexpr auto gpuAttributeWarpSize = cudaDevAttrWarpSize;
#define gpuFreeHost cudaFreeHost
#define gpuFuncSetAttribute cudaFuncSetAttribute
#define gpuGraphUpload cudaGraphUpload
#define gpuHostAlloc cudaHostAlloc
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph) {
  return cudaGraphInstantiate(executable, graph, 0);
}
inline gpuError_t gpuCapturedGraph(gpuStream_t stream, gpuGraph_t* graph) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamGetCaptureInfo(stream, &status, nullptr, graph);
}
#endif
#endif

// In a kernel: `type* const name`, the shared memory whose size the launch gave, 1024-byte aligned.
// Once a kernel: there is only one such memory.
// NOLINTBEGIN(bugprone-macro-parentheses): a type and the name it declares take none
#if defined(ENCORE_GPU_ON_CPU)
#define ENCORE_GPU_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(encore::gpu::on_cpu::dynamic_shared())
#else
#define ENCORE_GPU_DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(1024) unsigned char encore_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(encore_dynamic_shared)
#endif
// NOLINTEND(bugprone-macro-parentheses)

#include "bf16.h"
