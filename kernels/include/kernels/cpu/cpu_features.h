// What this processor can run, as far as the operating system lets it.
//
// CPUID alone is not enough: the operating system must have enabled the register state (XCR0), and
// on Linux a process must ask before it uses AMX tiles. A level is offered only if all agree.
#pragma once

#include <cstdint>

namespace encore::kernels {

// Instruction-set levels, each containing those before it.
enum class IsaLevel : int32_t {
  kGeneric = 0,  // plain C++, the specification of every kernel
  kAvx2 = 1,     // AVX2, FMA, F16C, POPCNT
  kAvx512 = 2,   // AVX-512 F, BW, VL, DQ, VNNI
  kAmx = 3,      // AMX tile, int8, bf16, and AVX-512 with BF16
};

const char* isa_level_name(IsaLevel level);  // "generic", "avx2", "avx512", "amx"

// The highest level whose kernels are in this library. A level above it gets the kernels of this
// one. Threads: any.
IsaLevel built_level();

// Everything that detection looks at, so that a test can supply it. Register names are Intel's.
struct CpuidSnapshot {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t xcr0 = 0;            // 0 unless OSXSAVE is set
  bool amx_permission = false;  // the kernel has granted tile data to this process
};

struct CpuFeatures {
  IsaLevel level = IsaLevel::kGeneric;
  bool avx_vnni = false;     // 256-bit VNNI without AVX-512
  bool avx512_bf16 = false;  // a part of kAmx, optional in kAvx512
  // Why the level is not higher, for a log line; a static string. Empty at kAmx.
  const char* reason = "";
};

// The features that `snapshot` allows. A pure function.
CpuFeatures features_of(const CpuidSnapshot& snapshot);

// Reads CPUID and XCR0, and asks the kernel for AMX tile data if the processor has it and this
// library is built for it.
// The permission holds for the whole process, threads already running included.
CpuidSnapshot read_cpuid();

// features_of(read_cpuid()), computed once. Says nothing of built_level(): the level may be above
// it. Threads: any.
const CpuFeatures& cpu_features();

}  // namespace encore::kernels
