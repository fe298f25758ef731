// Any bytes as a plugin's file, for the reader that looks at it before the dynamic linker does.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "elf_file.h"

namespace {

constexpr size_t kMostNeeded = 512;

// A file in memory whose path stays the same.
const std::string& write_input(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("fuzz_elf", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  if (::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  encore::LoadCode code = encore::LoadCode::kNone;
  const auto elf = encore::read_elf(write_input(data, size), &code);
  if (!elf.ok()) {
    if (encore::load_stage_of(code) != encore::LoadStage::kElf) std::abort();
    if (elf.status().message().empty()) std::abort();
    return 0;
  }
  if (elf->needed.size() > kMostNeeded) std::abort();
  for (const std::string& library : elf->needed) {
    if (library.size() > size || library.find('\0') != std::string::npos) std::abort();
  }
  return 0;
}
