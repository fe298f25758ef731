// The toy's own memory, and the only ways into it: copies, and addresses resolved by the device.
//
// The lowering hands out device addresses as `std::byte*`. On a real accelerator a host that reads
// through one crashes or reads rubbish, so the toy makes sure of it: its addresses lie in a range
// that this process has reserved and mapped to nothing. The bytes themselves lie elsewhere, and
// resolve() tells where. A backend for real hardware has its driver in place of this file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "encore/lowering/device.h"
#include "encore/status.h"

namespace acme {

// Short for what all of the toy's files speak of.
namespace lowering = encore::lowering;
using encore::Result;
using encore::Status;

// Threads: allocation from any; copies to one place from one thread at a time.
class ToyMemory : public std::enable_shared_from_this<ToyMemory> {
 public:
  // Errors: kOutOfMemory if the process has no room for so many bytes of addresses.
  static Result<std::shared_ptr<ToyMemory>> create(int64_t bytes);
  ~ToyMemory();
  ToyMemory(const ToyMemory&) = delete;
  ToyMemory& operator=(const ToyMemory&) = delete;

  int64_t total_bytes() const { return total_bytes_; }
  int64_t free_bytes() const;

  // Aligned to 64 bytes, and a multiple of them. Freed with the block, which keeps this alive.
  // Errors: kOutOfMemory naming `name`, the size and what is free.
  Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate(int64_t bytes,
                                                                const std::string& name);

  // Errors: kInternal if the device's part of the copy is not device memory.
  Status copy_in(std::byte* device, const std::byte* host, int64_t bytes);
  Status copy_out(std::byte* host, const std::byte* device, int64_t bytes) const;
  Status copy(std::byte* destination, const std::byte* source, int64_t bytes);
  Status fill(std::byte* device, uint8_t value, int64_t bytes);

  // The device's side alone: where the byte at a device address lies, or null if it is no such
  // address. One past the end is one: empty arrays may be there.
  template <typename T>
  T* resolve(T* address) const {
    const auto offset = reinterpret_cast<intptr_t>(address) - reinterpret_cast<intptr_t>(base_);
    if (offset < 0 || offset > total_bytes_) return nullptr;
    return reinterpret_cast<T*>(bytes_ + offset);
  }

 private:
  class Block;

  ToyMemory(std::byte* base, std::byte* bytes, int64_t total_bytes)
      : base_(base), bytes_(bytes), total_bytes_(total_bytes), free_{{0, total_bytes}} {}
  void free(int64_t offset, int64_t bytes);
  Status check(const std::byte* device, int64_t bytes) const;

  std::byte* const base_;   // what addresses are relative to; no access
  std::byte* const bytes_;  // what is there
  const int64_t total_bytes_;
  mutable std::mutex mutex_;         // guards free_
  std::map<int64_t, int64_t> free_;  // offset and size of each gap, never two that touch
};

}  // namespace acme
