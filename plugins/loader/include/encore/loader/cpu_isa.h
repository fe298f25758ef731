// Which of the processor's instruction sets this process may use, by the names of /proc/cpuinfo.
//
// CPUID alone is not enough: the operating system must save the registers (XCR0), and on Linux a
// process must ask before it uses AMX tiles. A feature counts only if all agree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace encore {

// Everything that detection looks at, so that a test can supply it. Register names are Intel's.
struct CpuSnapshot {
  std::string brand;  // "AMD EPYC 7763 64-Core Processor"; empty if the processor does not say
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint32_t extended1_ecx = 0;   // leaf 0x80000001
  uint64_t xcr0 = 0;            // 0 unless OSXSAVE is set
  bool amx_permission = false;  // the kernel has granted tile data to this process
};

// Reads CPUID and XCR0, and asks the kernel for AMX tile data if processor and system have it. The
// permission then holds for the whole process.
CpuSnapshot read_cpu_snapshot();

struct CpuFeature {
  std::string_view name;      // as in /proc/cpuinfo: "avx512_vnni"
  bool in_processor = false;  // CPUID
  bool in_system = false;     // XCR0 has its registers, or it needs none
  bool permitted = false;     // the kernel lets this process use it, or it needs no permission
  bool usable() const { return in_processor && in_system && permitted; }
};

// "the operating system has not enabled AVX-512 register state (XCR0)"; empty if it is usable.
std::string why_not_usable(const CpuFeature& feature);

// The features that a snapshot allows. Immutable; any thread.
class CpuIsa {
 public:
  explicit CpuIsa(const CpuSnapshot& snapshot);

  const std::string& brand() const { return brand_; }
  // Every feature that this host knows, in a fixed order.
  std::span<const CpuFeature> features() const { return features_; }
  // Null if this host does not know the name.
  const CpuFeature* find(std::string_view name) const;
  // Why code that needs these features cannot run, naming each that is lacking; empty if it can.
  std::string why_not(std::span<const std::string> names) const;

 private:
  std::string brand_;
  std::vector<CpuFeature> features_;
};

// Of this machine and process, read once. Any thread.
const CpuIsa& cpu_isa();

}  // namespace encore
