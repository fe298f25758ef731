#include "kernels/cpu/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace encore::kernels {
namespace {

constexpr bool has(uint32_t word, int bit) { return ((word >> bit) & 1U) != 0; }

// XCR0: SSE and AVX; then opmask, upper ZMM halves, upper ZMM registers; then tile config and data.
constexpr uint64_t kAvxState = 0x6;
constexpr uint64_t kAvx512State = kAvxState | 0xE0;
constexpr uint64_t kAmxState = kAvx512State | 0x60000;

bool enabled(const CpuidSnapshot& snapshot, uint64_t state) {
  return (snapshot.xcr0 & state) == state;
}

bool has_avx2(const CpuidSnapshot& s) {
  return has(s.leaf1_ecx, 28) && has(s.leaf1_ecx, 12) && has(s.leaf1_ecx, 29) &&
         has(s.leaf1_ecx, 23) && has(s.leaf7_ebx, 5);
}

bool has_avx512(const CpuidSnapshot& s) {
  return has(s.leaf7_ebx, 16) && has(s.leaf7_ebx, 17) && has(s.leaf7_ebx, 30) &&
         has(s.leaf7_ebx, 31) && has(s.leaf7_ecx, 11);
}

bool has_amx(const CpuidSnapshot& s) {
  return has(s.leaf7_edx, 22) && has(s.leaf7_edx, 24) && has(s.leaf7_edx, 25);
}

uint64_t read_xcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool request_amx_permission() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

}  // namespace

const char* isa_level_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::kGeneric:
      return "generic";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvx512:
      return "avx512";
    case IsaLevel::kAmx:
      return "amx";
  }
  return "unknown";
}

CpuFeatures features_of(const CpuidSnapshot& snapshot) {
  CpuFeatures features;
  if (!has_avx2(snapshot)) {
    features.reason = "the processor lacks AVX2, FMA, F16C or POPCNT";
    return features;
  }
  if (!enabled(snapshot, kAvxState)) {
    features.reason = "the operating system has not enabled AVX register state";
    return features;
  }
  features.level = IsaLevel::kAvx2;
  features.avx_vnni = has(snapshot.leaf7_1_eax, 4);
  if (!has_avx512(snapshot)) {
    features.reason = "the processor lacks AVX-512 F, BW, VL, DQ or VNNI";
    return features;
  }
  if (!enabled(snapshot, kAvx512State)) {
    features.reason = "the operating system has not enabled AVX-512 register state";
    return features;
  }
  features.level = IsaLevel::kAvx512;
  features.avx512_bf16 = has(snapshot.leaf7_1_eax, 5);
  if (!has_amx(snapshot) || !features.avx512_bf16) {
    features.reason = "the processor lacks AMX tile, int8 or bf16, or AVX512_BF16";
    return features;
  }
  if (!enabled(snapshot, kAmxState)) {
    features.reason = "the operating system has not enabled AMX tile state";
    return features;
  }
  if (!snapshot.amx_permission) {
    features.reason = "the kernel refused this process AMX tile data";
    return features;
  }
  features.level = IsaLevel::kAmx;
  return features;
}

CpuidSnapshot read_cpuid() {
  CpuidSnapshot snapshot;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return snapshot;
  snapshot.leaf1_ecx = c;
  constexpr int kOsxsave = 27;
  if (has(c, kOsxsave)) snapshot.xcr0 = read_xcr0();
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    snapshot.leaf7_ebx = b;
    snapshot.leaf7_ecx = c;
    snapshot.leaf7_edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) snapshot.leaf7_1_eax = a;
  }
  // The permission is the whole process's: a library without such kernels does not ask.
  if (built_level() >= IsaLevel::kAmx && has_amx(snapshot) && enabled(snapshot, kAmxState)) {
    snapshot.amx_permission = request_amx_permission();
  }
  return snapshot;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = features_of(read_cpuid());
  return features;
}

}  // namespace encore::kernels
