#include "fuzz_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace encore {

FuzzFile::FuzzFile() : descriptor_(::memfd_create("fuzz_input", MFD_CLOEXEC)) {
  if (descriptor_ < 0) std::abort();
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

FuzzFile::~FuzzFile() { ::close(descriptor_); }

const std::string& FuzzFile::write(const uint8_t* data, size_t size) {
  if (::ftruncate(descriptor_, 0) != 0) std::abort();
  if (::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  return path_;
}

}  // namespace encore
