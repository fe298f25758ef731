// Warp-level matrix instructions of sm_80 and later, and the asynchronous copies that feed them.
// NVIDIA only (32 lanes, PTX), or imitated where kernels run on the host.
//
// Fragments of mma.m16n8k16 (lane = 4 * group + pair): a[0] rows group, k 2 * pair; a[1] rows
// group + 8; a[2], a[3] the same with k + 8; b[0] k 2 * pair, column group; b[1] k + 8; c[0], c[1]
// row group, columns 2 * pair and 2 * pair + 1; c[2], c[3] row group + 8.
#pragma once

#include "pair.cuh"
#include "vendor.h"

#if defined(ENCORE_GPU_ON_CPU)
#include "mma_on_cpu.h"
#else
namespace encore::gpu {

// Where something is in shared memory, as the instructions below want it.
using SharedAddress = uint32_t;
__device__ inline SharedAddress shared_window(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from global to shared memory; zeros, and nothing read, unless `valid`.
__device__ inline void copy16_async(SharedAddress to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}
// 16 bytes, aligned.
__device__ inline void store16_shared(SharedAddress to, const void* from) {
  const uint4 value = *static_cast<const uint4*>(from);
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last kPending committed groups of this thread have arrived.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices of 16-bit elements. Lane 8 * i + j gives the address of row j of matrix i (16
// bytes, aligned); r[i] holds row `group`, columns 2 * pair and 2 * pair + 1 of matrix i, or of its
// transpose.
__device__ inline void load_matrices(uint32_t (&r)[4], SharedAddress address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], SharedAddress address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
// Transposes an 8x8 matrix held one row a group.
__device__ inline uint32_t transpose_matrix(uint32_t row) {
  uint32_t column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}

// c += a * b: [16, 16] times [16, 8], f32 accumulation.
template <typename T>
__device__ inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ inline void mma_16x8x16<bf16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void mma_16x8x16<f16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace encore::gpu
#endif
