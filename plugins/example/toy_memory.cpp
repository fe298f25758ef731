#include "toy_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace acme {
namespace {

std::byte* map_pages(int64_t bytes, int protection) {
  void* address = mmap(nullptr, static_cast<size_t>(bytes), protection,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

void unmap_pages(std::byte* address, int64_t bytes) {
  if (address != nullptr) munmap(address, static_cast<size_t>(bytes));
}

}  // namespace

// One allocation. Its address is a device address.
class ToyMemory::Block final : public lowering::DeviceMemoryBlock {
 public:
  Block(std::shared_ptr<ToyMemory> memory, int64_t offset, int64_t bytes)
      : memory_(std::move(memory)), offset_(offset), size_(bytes) {}
  ~Block() override { memory_->free(offset_, size_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const override { return memory_->base_ + offset_; }
  int64_t bytes() const override { return size_; }

 private:
  std::shared_ptr<ToyMemory> memory_;
  int64_t offset_;
  int64_t size_;
};

Result<std::shared_ptr<ToyMemory>> ToyMemory::create(int64_t bytes) {
  std::byte* addresses = map_pages(bytes, PROT_NONE);
  std::byte* storage = map_pages(bytes, PROT_READ | PROT_WRITE);
  if (addresses == nullptr || storage == nullptr) {
    unmap_pages(addresses, bytes);
    unmap_pages(storage, bytes);
    return encore::out_of_memory("cannot reserve " + std::to_string(bytes) +
                                 " bytes for the toy's memory; lower backend.options.memory_mb");
  }
  return std::shared_ptr<ToyMemory>(new ToyMemory(addresses, storage, bytes));
}

ToyMemory::~ToyMemory() {
  unmap_pages(base_, total_bytes_);
  unmap_pages(bytes_, total_bytes_);
}

int64_t ToyMemory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [offset, bytes] : free_) sum += bytes;
  return sum;
}

// The first gap that is large enough.
Result<std::unique_ptr<lowering::DeviceMemoryBlock>> ToyMemory::allocate(int64_t bytes,
                                                                         const std::string& name) {
  const int64_t size = std::max<int64_t>((bytes + 63) / 64 * 64, 64);
  {
    const std::lock_guard lock(mutex_);
    for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
      const auto [offset, gap_bytes] = *gap;
      if (gap_bytes < size) continue;
      free_.erase(gap);
      if (gap_bytes > size) free_.emplace(offset + size, gap_bytes - size);
      return std::unique_ptr<lowering::DeviceMemoryBlock>(
          std::make_unique<Block>(shared_from_this(), offset, size));
    }
  }
  return encore::out_of_memory("'" + name + "' needs " + std::to_string(bytes) +
                               " bytes; the toy has " + std::to_string(free_bytes()) + " free of " +
                               std::to_string(total_bytes_) +
                               "; raise backend.options.memory_mb or make it smaller");
}

// Joins the new gap with its neighbours.
void ToyMemory::free(int64_t offset, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

Status ToyMemory::check(const std::byte* device, int64_t bytes) const {
  const int64_t offset = reinterpret_cast<intptr_t>(device) - reinterpret_cast<intptr_t>(base_);
  if (offset >= 0 && bytes >= 0 && offset <= total_bytes_ - bytes) return {};
  return encore::internal_error("a copy of " + std::to_string(bytes) +
                                " bytes leaves the toy's memory: is it a host address?");
}

Status ToyMemory::copy_in(std::byte* device, const std::byte* host, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(check(device, bytes));
  std::memcpy(resolve(device), host, static_cast<size_t>(bytes));
  return {};
}

Status ToyMemory::copy_out(std::byte* host, const std::byte* device, int64_t bytes) const {
  ENCORE_RETURN_IF_ERROR(check(device, bytes));
  std::memcpy(host, resolve(device), static_cast<size_t>(bytes));
  return {};
}

Status ToyMemory::copy(std::byte* destination, const std::byte* source, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(check(destination, bytes));
  ENCORE_RETURN_IF_ERROR(check(source, bytes));
  std::memcpy(resolve(destination), resolve(source), static_cast<size_t>(bytes));
  return {};
}

Status ToyMemory::fill(std::byte* device, uint8_t value, int64_t bytes) {
  ENCORE_RETURN_IF_ERROR(check(device, bytes));
  std::memset(resolve(device), value, static_cast<size_t>(bytes));
  return {};
}

}  // namespace acme
