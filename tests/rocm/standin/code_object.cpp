#include "code_object.h"

#include <cstring>
#include <string_view>

#include "elf_image.h"

namespace encore::standin {
namespace {

// LLVM, "Clang Offload Bundler": magic, count, then for each entry offset, size and target.
constexpr std::string_view kMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::string_view kTargetEnd = "amdgcn-amd-amdhsa--";

struct Entry {
  std::string architecture;
  std::span<const char> image;
};

uint64_t read_number(const char*& at) {
  uint64_t number = 0;
  std::memcpy(&number, at, sizeof(number));
  at += sizeof(number);
  return number;
}

std::vector<Entry> entries_of(const void* bundle) {
  const char* begin = static_cast<const char*>(bundle);
  if (std::memcmp(begin, kMagic.data(), kMagic.size()) != 0) return {};
  const char* at = begin + kMagic.size();
  std::vector<Entry> entries;
  for (uint64_t left = read_number(at); left > 0; --left) {
    const uint64_t offset = read_number(at);
    const uint64_t size = read_number(at);
    const uint64_t length = read_number(at);
    const std::string_view target(at, length);
    at += length;
    const size_t end = target.find(kTargetEnd);
    if (end == std::string_view::npos) continue;  // the host's
    entries.push_back({std::string(target.substr(end + kTargetEnd.size())),
                       std::span<const char>(begin + offset, size)});
  }
  return entries;
}

DeviceKernel read_descriptor(std::span<const char> bytes) {
  constexpr size_t kPropertiesAt = 56;
  constexpr uint16_t kWave32 = 1U << 10;
  DeviceKernel kernel;
  for (const uint32_t local : read_array<uint32_t>(bytes, 0, 1)) kernel.local_bytes = local;
  for (const uint16_t properties : read_array<uint16_t>(bytes, kPropertiesAt, 1)) {
    kernel.lanes = (properties & kWave32) != 0 ? 32 : 64;
  }
  return kernel;
}

}  // namespace

std::vector<std::string> architectures_of(const void* bundle) {
  std::vector<std::string> architectures;
  for (const Entry& entry : entries_of(bundle)) architectures.push_back(entry.architecture);
  return architectures;
}

std::optional<std::map<std::string, DeviceKernel>> device_kernels(const void* bundle,
                                                                  const std::string& architecture) {
  constexpr std::string_view kSuffix = ".kd";
  for (const Entry& entry : entries_of(bundle)) {
    if (entry.architecture.substr(0, entry.architecture.find(':')) != architecture) continue;
    std::map<std::string, DeviceKernel> kernels;
    for (const ElfSymbol& symbol : elf_symbols(entry.image, SHT_DYNSYM)) {
      if (!std::string_view(symbol.name).ends_with(kSuffix)) continue;
      kernels.emplace(symbol.name.substr(0, symbol.name.size() - kSuffix.size()),
                      read_descriptor(elf_bytes_at(entry.image, symbol.address)));
    }
    return kernels;
  }
  return std::nullopt;
}

}  // namespace encore::standin
