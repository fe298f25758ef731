// What this processor and operating system can run.
#pragma once

#include <cstdint>

namespace encore::kernels {

// Sets of instructions that kernels are written for, each containing the one before.
enum class CpuLevel : int32_t {
  kReference = 0,  // plain C++: the specification
  kAvx2 = 1,       // AVX2, FMA, F16C
  kAvx512 = 2,     // AVX-512 F, BW, DQ, VL, VNNI, BF16
  kAmx = 3,        // AMX tile, int8, bf16
};

}  // namespace encore::kernels
