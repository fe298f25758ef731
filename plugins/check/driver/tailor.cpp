#include "tailor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace encore::check {

FencedBytes::FencedBytes(size_t size) : size_(size) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t pages = (size + page - 1) / page + 1;
  mapped_bytes_ = (pages + 1) * page;
  mapping_ =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<uint8_t*>(mapping_);
  ::mprotect(begin + pages * page, page, PROT_NONE);
  data_ = begin + pages * page - size;
}

FencedBytes::~FencedBytes() { ::munmap(mapping_, mapped_bytes_); }

FencedBytes& Tailor::fenced(size_t size) {
  FencedBytes& bytes = *kept_.emplace_back(std::make_unique<FencedBytes>(size));
  std::fill_n(bytes.data(), size, kPoison);
  return bytes;
}

void* Tailor::store(const void* value, size_t value_bytes, size_t size) {
  FencedBytes& bytes = fenced(size);
  std::memcpy(bytes.data(), value, std::min(value_bytes, size));
  return bytes.data();
}

}  // namespace encore::check
