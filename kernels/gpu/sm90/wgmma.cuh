// Matrix instructions of sm_90 by a warpgroup (128 threads): d[64, N] += a[64, 16] * b[16, N], f32
// accumulation. They run asynchronously: fence, issue, commit, wait; accumulators and register
// operands must not be touched between issue and wait.
//
// Thread t of the warpgroup holds, of d, rows 16 * (t / 32) + t % 32 / 4 (and 8 more) and columns
// 8 * j + 2 * (t % 4) (and the next): d[4 * j] and d[4 * j + 1] in the first row, d[4 * j + 2] and
// d[4 * j + 3] in the second. Register operand a has the same layout over 16 columns, packed in
// pairs: {row, row + 8} of columns 0..7, then of columns 8..15.
#pragma once

#include <cstdint>
#include <type_traits>

#include "vendor.h"

namespace encore::gpu {

__device__ inline void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void mma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending of this warpgroup's committed groups are unfinished.
template <int kPending>
__device__ inline void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving uses of registers that an instruction in flight reads or writes.
template <int kCount>
__device__ inline void mma_pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// Descriptor of an operand in shared memory: rows of 128 bytes with the 128-byte swizzle, 8 of them
// (1024 bytes) after one another and the next 8 `eight_rows` bytes on. `address` is the first
// element of the 16-deep slice: along a row it moves by 32 bytes a slice where k is contiguous.
__device__ inline uint64_t mma_descriptor(uint32_t address, uint32_t eight_rows = 1024) {
  return (static_cast<uint64_t>(address & 0x3FFFF) >> 4) | (uint64_t{1} << 16) |
         (static_cast<uint64_t>(eight_rows >> 4) << 32) | (uint64_t{1} << 62);
}
// The same for an operand whose rows run along k (b as [16, N], N contiguous): its columns come in
// groups of 64, `group_bytes` apart.
__device__ inline uint64_t mma_descriptor_transposed(uint32_t address, uint32_t group_bytes,
                                                     uint32_t eight_rows) {
  return (static_cast<uint64_t>(address & 0x3FFFF) >> 4) |
         (static_cast<uint64_t>(group_bytes >> 4) << 16) |
         (static_cast<uint64_t>(eight_rows >> 4) << 32) | (uint64_t{1} << 62);
}

#define ENCORE_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ENCORE_F16(d, i) \
  ENCORE_F4(d, i), ENCORE_F4(d, i + 4), ENCORE_F4(d, i + 8), ENCORE_F4(d, i + 12)
#define ENCORE_D8 "{%0, %1, %2, %3}"
#define ENCORE_D16 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define ENCORE_D32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define ENCORE_D64                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define ENCORE_D128                                                                  \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

// A, B, P, ... are the numbers of the operands that follow d's registers.
#define ENCORE_MMA_SHARED_OF(N, TYPE, A, B, P, ...)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P                                          \
               ", 0;\n"                                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " " ENCORE_D##N \
               ", %" A ", %" B ", p, 1, 1, 0, 0;\n}"                                           \
               : __VA_ARGS__                                                                   \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
#define ENCORE_MMA_SHARED(N, A, B, P, ...)                 \
  if constexpr (std::is_same_v<T, bf16>) {                 \
    ENCORE_MMA_SHARED_OF(N, "bf16", A, B, P, __VA_ARGS__); \
  } else {                                                 \
    ENCORE_MMA_SHARED_OF(N, "f16", A, B, P, __VA_ARGS__);  \
  }
#define ENCORE_MMA_REGISTERS_OF(N, TYPE, A0, A1, A2, A3, B, ...)                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " " ENCORE_D##N \
               ", {%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B ", 1, 1, 1, 1;"                   \
               : __VA_ARGS__                                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define ENCORE_MMA_REGISTERS(N, A0, A1, A2, A3, B, ...)                 \
  if constexpr (std::is_same_v<T, bf16>) {                              \
    ENCORE_MMA_REGISTERS_OF(N, "bf16", A0, A1, A2, A3, B, __VA_ARGS__); \
  } else {                                                              \
    ENCORE_MMA_REGISTERS_OF(N, "f16", A0, A1, A2, A3, B, __VA_ARGS__);  \
  }

// a and b in shared memory, k contiguous in both. Overwrites d unless `accumulate`.
template <typename T, int kN>
__device__ inline void mma_shared(float (&d)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  if constexpr (kN == 8) {
    ENCORE_MMA_SHARED(8, "4", "5", "6", ENCORE_F4(d, 0))
  } else if constexpr (kN == 16) {
    ENCORE_MMA_SHARED(16, "8", "9", "10", ENCORE_F4(d, 0), ENCORE_F4(d, 4))
  } else if constexpr (kN == 32) {
    ENCORE_MMA_SHARED(32, "16", "17", "18", ENCORE_F16(d, 0))
  } else if constexpr (kN == 64) {
    ENCORE_MMA_SHARED(64, "32", "33", "34", ENCORE_F16(d, 0), ENCORE_F16(d, 16))
  } else {
    static_assert(kN == 128);
    ENCORE_MMA_SHARED(128, "64", "65", "66", ENCORE_F16(d, 0), ENCORE_F16(d, 16), ENCORE_F16(d, 32),
                      ENCORE_F16(d, 48))
  }
}

// a in registers; b in shared memory as rows along k (mma_descriptor_transposed()).
template <typename T, int kN>
__device__ inline void mma_registers(float (&d)[kN / 2], const uint32_t* a, uint64_t b) {
  if constexpr (kN == 64) {
    ENCORE_MMA_REGISTERS(64, "32", "33", "34", "35", "36", ENCORE_F16(d, 0), ENCORE_F16(d, 16))
  } else {
    static_assert(kN == 128);
    ENCORE_MMA_REGISTERS(128, "64", "65", "66", "67", "68", ENCORE_F16(d, 0), ENCORE_F16(d, 16),
                         ENCORE_F16(d, 32), ENCORE_F16(d, 48))
  }
}

#undef ENCORE_MMA_REGISTERS
#undef ENCORE_MMA_REGISTERS_OF
#undef ENCORE_MMA_SHARED
#undef ENCORE_MMA_SHARED_OF
#undef ENCORE_D128
#undef ENCORE_D64
#undef ENCORE_D32
#undef ENCORE_D16
#undef ENCORE_D8
#undef ENCORE_F16
#undef ENCORE_F4

}  // namespace encore::gpu
