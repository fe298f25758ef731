// Counts every allocation of the program whose one source file includes this.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

// NOLINTBEGIN(misc-definitions-in-headers)
namespace {
std::atomic<int64_t> num_allocations = 0;
[[maybe_unused]] std::atomic<int64_t> num_frees = 0;
}  // namespace

// Not inlined: a compiler that sees one half only takes `free` for a mistake.
[[gnu::noinline]] void* operator new(size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) ++num_frees;
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
// NOLINTEND(misc-definitions-in-headers)
