// Processors as CPUID and XCR0 would tell of them.
#pragma once

#include <cstdint>

#include "encore/loader/cpu_isa.h"

namespace encore {

// What XCR0 has where the operating system keeps those registers.
inline constexpr uint64_t kAvxState = 0x7;
inline constexpr uint64_t kAvx512State = kAvxState | 0xE0;
inline constexpr uint64_t kAmxState = kAvx512State | 0x60000;

// Every feature there is, in a system that lets all of them be used.
inline CpuSnapshot everything() {
  return {.brand = "Test CPU",
          .leaf1_ecx = ~0U,
          .leaf7_ebx = ~0U,
          .leaf7_ecx = ~0U,
          .leaf7_edx = ~0U,
          .leaf7_1_eax = ~0U,
          .extended1_ecx = ~0U,
          .xcr0 = kAmxState,
          .amx_permission = true};
}

}  // namespace encore
