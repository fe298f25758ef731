// Kernels of kernels/gpu compiled for the host, so that their tests run without a GPU. vendor.h
// includes this where ENCORE_GPU_ON_CPU is defined.
//
// Thread blocks run one after another in the caller's thread; the threads of a block are fibers
// that switch at __syncthreads() and at warp operations (fibers.h). A kernel therefore must not
// wait for another block. Streams do nothing: a launch has finished when it returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device_math.h"
#include "device_types.h"
#include "fibers.h"
#include "kernel_types.h"

#define __global__ __attribute__((noinline, used))  // kernel_table.h finds them by name
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // one block runs at a time
#define __align__(bytes) __attribute__((aligned(bytes)))

// ---- Threads of a block, lanes of a warp ----

inline void __syncthreads() { encore::gpu::on_cpu::block_barrier(); }
inline int __syncthreads_or(int predicate) { return encore::gpu::on_cpu::block_or(predicate); }
inline int __syncthreads_and(int predicate) {
  return encore::gpu::on_cpu::block_or(predicate == 0 ? 1 : 0) == 0 ? 1 : 0;
}
inline void __syncwarp(uint64_t mask = encore::gpu::on_cpu::kAllLanes) {
  int nothing = 0;
  encore::gpu::on_cpu::warp_together(mask, nothing, [](int**) {});
}

// The lane of `value` that each lane asks for.
template <typename T>
T encore_exchange(uint64_t mask, T value, int source) {
  struct Record {
    T value;
    int source;
    T result;
  } record{value, source, value};
  encore::gpu::on_cpu::warp_together(mask, record, [](Record** lanes) {
    const int last = encore::gpu::on_cpu::num_lanes() - 1;
    for (int i = 0; i <= last; ++i) {
      if (lanes[i] == nullptr) continue;
      const Record* from = lanes[lanes[i]->source & last];
      if (from != nullptr) lanes[i]->result = from->value;
    }
  });
  return record.result;
}

// As CUDA has them: among the lanes of a mask.
template <typename T>
T __shfl_sync(uint64_t mask, T value, int lane, int width = encore::gpu::on_cpu::num_lanes()) {
  const int self = encore::gpu::on_cpu::lane();
  return encore_exchange(mask, value, (self & ~(width - 1)) | (lane & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(uint64_t mask, T value, int lane_mask,
                  int width = encore::gpu::on_cpu::num_lanes()) {
  const int self = encore::gpu::on_cpu::lane();
  const int source = self ^ lane_mask;
  return encore_exchange(mask, value, source / width == self / width ? source : self);
}
template <typename T>
T __shfl_up_sync(uint64_t mask, T value, int delta, int width = encore::gpu::on_cpu::num_lanes()) {
  const int self = encore::gpu::on_cpu::lane();
  return encore_exchange(mask, value, self % width < delta ? self : self - delta);
}
template <typename T>
T __shfl_down_sync(uint64_t mask, T value, int delta,
                   int width = encore::gpu::on_cpu::num_lanes()) {
  const int self = encore::gpu::on_cpu::lane();
  return encore_exchange(mask, value, self % width + delta >= width ? self : self + delta);
}
inline uint64_t encore_ballot(uint64_t mask, int predicate) {
  uint64_t record = predicate != 0 ? 1U : 0U;
  encore::gpu::on_cpu::warp_together(mask, record, [](uint64_t** lanes) {
    uint64_t votes = 0;
    for (int i = 0; i < encore::gpu::on_cpu::kMaxLanes; ++i) {
      votes |= lanes[i] == nullptr ? 0U : *lanes[i] << i;
    }
    for (int i = 0; i < encore::gpu::on_cpu::kMaxLanes; ++i) {
      if (lanes[i] != nullptr) *lanes[i] = votes;
    }
  });
  return record;
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
  return static_cast<uint32_t>(encore_ballot(mask, predicate));
}
inline int __any_sync(uint32_t mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}
inline int __all_sync(uint32_t mask, int predicate) {
  return __ballot_sync(mask, predicate == 0 ? 1 : 0) == 0 ? 1 : 0;
}

// As HIP has them: among all lanes that the warp has. On a device those that run at the moment take
// part; here one that has left, or never comes, is an error.
template <typename T>
T __shfl(T value, int lane, int width = encore::gpu::on_cpu::num_lanes()) {
  return __shfl_sync(encore::gpu::on_cpu::kAllLanes, value, lane, width);
}
template <typename T>
T __shfl_xor(T value, int lane_mask, int width = encore::gpu::on_cpu::num_lanes()) {
  return __shfl_xor_sync(encore::gpu::on_cpu::kAllLanes, value, lane_mask, width);
}
template <typename T>
T __shfl_up(T value, int delta, int width = encore::gpu::on_cpu::num_lanes()) {
  return __shfl_up_sync(encore::gpu::on_cpu::kAllLanes, value, delta, width);
}
template <typename T>
T __shfl_down(T value, int delta, int width = encore::gpu::on_cpu::num_lanes()) {
  return __shfl_down_sync(encore::gpu::on_cpu::kAllLanes, value, delta, width);
}
inline uint64_t __ballot(int predicate) {
  return encore_ballot(encore::gpu::on_cpu::kAllLanes, predicate);
}
inline int __any(int predicate) { return __ballot(predicate) != 0 ? 1 : 0; }
inline int __all(int predicate) { return __ballot(predicate == 0 ? 1 : 0) == 0 ? 1 : 0; }

// ---- Memory: one thread of the host, so plain accesses are atomic ----

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

template <typename T, typename U>
T atomicAdd(T* address, U value) {
  const T old = *address;
  *address = static_cast<T>(old + static_cast<T>(value));
  return old;
}
template <typename T, typename U>
T atomicMax(T* address, U value) {
  const T old = *address;
  if (static_cast<T>(value) > old) *address = static_cast<T>(value);
  return old;
}
template <typename T, typename U>
T atomicMin(T* address, U value) {
  const T old = *address;
  if (static_cast<T>(value) < old) *address = static_cast<T>(value);
  return old;
}
template <typename T, typename U>
T atomicOr(T* address, U value) {
  const T old = *address;
  *address = old | static_cast<T>(value);
  return old;
}
template <typename T, typename U>
T atomicExch(T* address, U value) {
  const T old = *address;
  *address = static_cast<T>(value);
  return old;
}
template <typename T, typename U, typename V>
T atomicCAS(T* address, U expected, V value) {
  const T old = *address;
  if (old == static_cast<T>(expected)) *address = static_cast<T>(value);
  return old;
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}

// ---- The run-time library, as far as tests of kernels use it ----

enum gpuError_t : int32_t { gpuSuccess = 0, gpuErrorInvalidValue = 1, gpuErrorOutOfMemory = 2 };
using gpuStream_t = struct GpuOnCpuStream*;
enum gpuMemcpyKind : int32_t {
  gpuMemcpyDefault,
  gpuMemcpyDeviceToDevice,
  gpuMemcpyDeviceToHost,
  gpuMemcpyHostToDevice,
};
enum gpuAttribute : int32_t { gpuAttributeMultiprocessors, gpuAttributeWarpSize };
enum gpuFuncAttribute : int32_t { gpuFuncAttributeMaxDynamicSharedMemorySize };
inline constexpr unsigned gpuStreamNonBlocking = 1;

gpuError_t gpuMalloc(void** data, size_t bytes);
gpuError_t gpuFree(void* data);
gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuMemcpyKind, gpuStream_t);
gpuError_t gpuMemsetAsync(void* to, int byte, size_t bytes, gpuStream_t);
gpuError_t gpuDeviceGetAttribute(int* value, gpuAttribute attribute, int device);
const char* gpuGetErrorString(gpuError_t error);
inline gpuError_t gpuGetDeviceCount(int* count) {
  *count = 1;
  return gpuSuccess;
}
inline gpuError_t gpuGetDevice(int* device) {
  *device = 0;
  return gpuSuccess;
}
inline gpuError_t gpuGetLastError() { return gpuSuccess; }
inline gpuError_t gpuDeviceSynchronize() { return gpuSuccess; }
inline gpuError_t gpuStreamCreateWithFlags(gpuStream_t* stream, unsigned) {
  *stream = nullptr;
  return gpuSuccess;
}
inline gpuError_t gpuStreamDestroy(gpuStream_t) { return gpuSuccess; }
inline gpuError_t gpuStreamSynchronize(gpuStream_t) { return gpuSuccess; }
template <typename Kernel>
gpuError_t gpuFuncSetAttribute(Kernel, gpuFuncAttribute, int) {
  return gpuSuccess;
}
