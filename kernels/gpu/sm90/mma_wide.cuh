// The matrix instruction of wgmma.cuh in the widths of products by tiles: d[64, N] += a[64, 16] *
// b[16, N] with bf16 operands in shared memory, k contiguous in both.
#pragma once

#include <cstdint>

#include "sm90/wgmma.cuh"
#include "vendor.h"

namespace encore::gpu {

#define ENCORE_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ENCORE_F8(d, i) ENCORE_F4(d, i), ENCORE_F4(d, i + 4)
#define ENCORE_F16(d, i) ENCORE_F8(d, i), ENCORE_F8(d, i + 8)
#define ENCORE_F32(d, i) ENCORE_F16(d, i), ENCORE_F16(d, i + 16)
#define ENCORE_F64(d, i) ENCORE_F32(d, i), ENCORE_F32(d, i + 32)
// The first N of d's registers.
#define ENCORE_TO_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define ENCORE_TO_24 ENCORE_TO_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define ENCORE_TO_32 ENCORE_TO_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define ENCORE_TO_36 ENCORE_TO_32 ", %32, %33, %34, %35"
#define ENCORE_TO_48 ENCORE_TO_36 ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ENCORE_TO_64                                               \
  ENCORE_TO_48                                                     \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
  "%60, %61, %62, %63"
#define ENCORE_TO_72 ENCORE_TO_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define ENCORE_TO_96                                               \
  ENCORE_TO_72                                                     \
  ", %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
  "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ENCORE_TO_112                                                                        \
  ENCORE_TO_96                                                                               \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111"
#define ENCORE_TO_128                                              \
  ENCORE_TO_112                                                    \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, " \
  "%122, %123, %124, %125, %126, %127"

// A, B and P are the numbers of the operands that follow d's registers.
#define ENCORE_MMA(N, REGISTERS, A, B, P, ...)                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P                                          \
               ", 0;\n"                                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS "}, %" A \
               ", %" B ", p, 1, 1, 0, 0;\n}"                                                   \
               : __VA_ARGS__                                                                   \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))

// Descriptors are mma_descriptor()'s. Overwrites d unless `accumulate`.
template <int kN>
__device__ __forceinline__ void mma_wide(float (&d)[kN / 2], uint64_t a, uint64_t b,
                                         bool accumulate) {
  if constexpr (kN == 64) {
    mma_shared<bf16, kN>(d, a, b, accumulate);
  } else if constexpr (kN == 48) {
    ENCORE_MMA(48, ENCORE_TO_24, "24", "25", "26", ENCORE_F16(d, 0), ENCORE_F8(d, 16));
  } else if constexpr (kN == 72) {
    ENCORE_MMA(72, ENCORE_TO_36, "36", "37", "38", ENCORE_F32(d, 0), ENCORE_F4(d, 32));
  } else if constexpr (kN == 96) {
    ENCORE_MMA(96, ENCORE_TO_48, "48", "49", "50", ENCORE_F32(d, 0), ENCORE_F16(d, 32));
  } else if constexpr (kN == 144) {
    ENCORE_MMA(144, ENCORE_TO_72, "72", "73", "74", ENCORE_F64(d, 0), ENCORE_F8(d, 64));
  } else if constexpr (kN == 224) {
    ENCORE_MMA(224, ENCORE_TO_112, "112", "113", "114", ENCORE_F64(d, 0), ENCORE_F32(d, 64),
               ENCORE_F16(d, 96));
  } else {
    static_assert(kN == 256);
    ENCORE_MMA(256, ENCORE_TO_128, "128", "129", "130", ENCORE_F64(d, 0), ENCORE_F64(d, 64));
  }
}

#undef ENCORE_MMA
#undef ENCORE_TO_128
#undef ENCORE_TO_112
#undef ENCORE_TO_96
#undef ENCORE_TO_72
#undef ENCORE_TO_64
#undef ENCORE_TO_48
#undef ENCORE_TO_36
#undef ENCORE_TO_32
#undef ENCORE_TO_24
#undef ENCORE_TO_16
#undef ENCORE_F64
#undef ENCORE_F32
#undef ENCORE_F16
#undef ENCORE_F8
#undef ENCORE_F4

}  // namespace encore::gpu
