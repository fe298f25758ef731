#include "encore/loader/cpu_isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace encore {
namespace {

// Register state that a feature needs, as bits of XCR0.
enum class Registers : int32_t { kNone, kAvx, kAvx512, kAmx };

constexpr uint64_t kAvxState = 0x6;                  // XMM, upper YMM halves
constexpr uint64_t kAvx512State = kAvxState | 0xE0;  // opmasks, upper ZMM halves, ZMM16-31
constexpr uint64_t kAmxState = kAvxState | 0x60000;  // tile configuration, tile data

struct KnownFeature {
  std::string_view name;
  uint32_t CpuSnapshot::*word;
  int bit;
  Registers registers;
};

using S = CpuSnapshot;
// clang-format off
constexpr auto kKnown = std::to_array<KnownFeature>({
    {"pni", &S::leaf1_ecx, 0, Registers::kNone},
    {"pclmulqdq", &S::leaf1_ecx, 1, Registers::kNone},
    {"ssse3", &S::leaf1_ecx, 9, Registers::kNone},
    {"sse4_1", &S::leaf1_ecx, 19, Registers::kNone},
    {"sse4_2", &S::leaf1_ecx, 20, Registers::kNone},
    {"movbe", &S::leaf1_ecx, 22, Registers::kNone},
    {"popcnt", &S::leaf1_ecx, 23, Registers::kNone},
    {"aes", &S::leaf1_ecx, 25, Registers::kNone},
    {"abm", &S::extended1_ecx, 5, Registers::kNone},
    {"bmi1", &S::leaf7_ebx, 3, Registers::kNone},
    {"bmi2", &S::leaf7_ebx, 8, Registers::kNone},
    {"sha_ni", &S::leaf7_ebx, 29, Registers::kNone},
    {"gfni", &S::leaf7_ecx, 8, Registers::kNone},
    {"avx", &S::leaf1_ecx, 28, Registers::kAvx},
    {"f16c", &S::leaf1_ecx, 29, Registers::kAvx},
    {"fma", &S::leaf1_ecx, 12, Registers::kAvx},
    {"avx2", &S::leaf7_ebx, 5, Registers::kAvx},
    {"vaes", &S::leaf7_ecx, 9, Registers::kAvx},
    {"vpclmulqdq", &S::leaf7_ecx, 10, Registers::kAvx},
    {"avx_vnni", &S::leaf7_1_eax, 4, Registers::kAvx},
    {"avx_ifma", &S::leaf7_1_eax, 23, Registers::kAvx},
    {"avx512f", &S::leaf7_ebx, 16, Registers::kAvx512},
    {"avx512dq", &S::leaf7_ebx, 17, Registers::kAvx512},
    {"avx512ifma", &S::leaf7_ebx, 21, Registers::kAvx512},
    {"avx512cd", &S::leaf7_ebx, 28, Registers::kAvx512},
    {"avx512bw", &S::leaf7_ebx, 30, Registers::kAvx512},
    {"avx512vl", &S::leaf7_ebx, 31, Registers::kAvx512},
    {"avx512vbmi", &S::leaf7_ecx, 1, Registers::kAvx512},
    {"avx512_vbmi2", &S::leaf7_ecx, 6, Registers::kAvx512},
    {"avx512_vnni", &S::leaf7_ecx, 11, Registers::kAvx512},
    {"avx512_bitalg", &S::leaf7_ecx, 12, Registers::kAvx512},
    {"avx512_vpopcntdq", &S::leaf7_ecx, 14, Registers::kAvx512},
    {"avx512_vp2intersect", &S::leaf7_edx, 8, Registers::kAvx512},
    {"avx512_fp16", &S::leaf7_edx, 23, Registers::kAvx512},
    {"avx512_bf16", &S::leaf7_1_eax, 5, Registers::kAvx512},
    {"amx_bf16", &S::leaf7_edx, 22, Registers::kAmx},
    {"amx_tile", &S::leaf7_edx, 24, Registers::kAmx},
    {"amx_int8", &S::leaf7_edx, 25, Registers::kAmx},
    {"amx_fp16", &S::leaf7_1_eax, 21, Registers::kAmx},
});
// clang-format on

constexpr bool has(uint32_t word, int bit) { return ((word >> bit) & 1U) != 0; }

uint64_t state_bits(Registers registers) {
  switch (registers) {
    case Registers::kNone:
      return 0;
    case Registers::kAvx:
      return kAvxState;
    case Registers::kAvx512:
      return kAvx512State;
    case Registers::kAmx:
      return kAmxState;
  }
  return 0;
}

const KnownFeature* known(std::string_view name) {
  const auto* const found = std::find_if(
      kKnown.begin(), kKnown.end(), [name](const auto& feature) { return feature.name == name; });
  return found == kKnown.end() ? nullptr : found;
}

std::string_view register_names(std::string_view feature) {
  const KnownFeature* entry = known(feature);
  if (entry == nullptr) return "its";
  switch (entry->registers) {
    case Registers::kNone:
      return "its";
    case Registers::kAvx:
      return "AVX";
    case Registers::kAvx512:
      return "AVX-512";
    case Registers::kAmx:
      return "AMX tile";
  }
  return "its";
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

std::string read_brand() {
  constexpr uint32_t kFirst = 0x80000002;
  constexpr uint32_t kLast = 0x80000004;
  std::array<char, 49> text{};  // 48 bytes, and a zero that no processor can leave out
  for (uint32_t leaf = kFirst; leaf <= kLast; ++leaf) {
    std::array<uint32_t, 4> words{};
    if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]) == 0) return {};
    std::memcpy(text.data() + (leaf - kFirst) * sizeof(words), words.data(), sizeof(words));
  }
  std::string brand(text.data());
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand;
}

}  // namespace

CpuSnapshot read_cpu_snapshot() {
  CpuSnapshot snapshot;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return snapshot;
  snapshot.brand = read_brand();
  snapshot.leaf1_ecx = c;
  constexpr int kOsxsave = 27;
  if (has(c, kOsxsave)) snapshot.xcr0 = read_xcr0();
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) != 0) snapshot.extended1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    snapshot.leaf7_ebx = b;
    snapshot.leaf7_ecx = c;
    snapshot.leaf7_edx = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) snapshot.leaf7_1_eax = a;
  }
  constexpr int kAmxTile = 24;
  if (has(snapshot.leaf7_edx, kAmxTile) && (snapshot.xcr0 & kAmxState) == kAmxState) {
    snapshot.amx_permission = request_amx_permission();
  }
  return snapshot;
}

std::string why_not_usable(const CpuFeature& feature) {
  if (!feature.in_processor) return "the processor lacks it";
  if (!feature.in_system) {
    return std::string("the operating system has not enabled ")
        .append(register_names(feature.name))
        .append(" register state (XCR0)");
  }
  if (!feature.permitted) return "the kernel refused this process AMX tile data";
  return {};
}

CpuIsa::CpuIsa(const CpuSnapshot& snapshot) : brand_(snapshot.brand) {
  features_.reserve(kKnown.size());
  for (const KnownFeature& entry : kKnown) {
    const uint64_t state = state_bits(entry.registers);
    features_.push_back(
        {.name = entry.name,
         .in_processor = has(snapshot.*entry.word, entry.bit),
         .in_system = (snapshot.xcr0 & state) == state,
         .permitted = entry.registers != Registers::kAmx || snapshot.amx_permission});
  }
}

const CpuFeature* CpuIsa::find(std::string_view name) const {
  const auto found = std::find_if(features_.begin(), features_.end(),
                                  [name](const auto& feature) { return feature.name == name; });
  return found == features_.end() ? nullptr : &*found;
}

std::string CpuIsa::why_not(std::span<const std::string> names) const {
  std::string text;
  // Features that are lacking for one reason are named together.
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const std::string& name : names) {
    const CpuFeature* feature = find(name);
    const std::string reason =
        feature == nullptr ? "this host does not know it" : why_not_usable(*feature);
    if (reason.empty()) continue;
    const auto same = std::find_if(reasons.begin(), reasons.end(),
                                   [&](const auto& entry) { return entry.first == reason; });
    if (same == reasons.end()) {
      reasons.emplace_back(reason, name);
    } else {
      same->second.append(", ").append(name);
    }
  }
  for (const auto& [reason, features] : reasons) {
    text.append(text.empty() ? "" : "; ").append(features).append(": ").append(reason);
  }
  return text;
}

const CpuIsa& cpu_isa() {
  static const CpuIsa isa(read_cpu_snapshot());
  return isa;
}

}  // namespace encore
