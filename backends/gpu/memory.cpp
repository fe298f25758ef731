#include "memory.h"

#include <algorithm>
#include <utility>

#include "gpu_status.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

using Free = gpuError_t (*)(void*);

class Block final : public lowering::DeviceMemoryBlock {
 public:
  Block(std::byte* data, int64_t bytes, std::atomic<int64_t>& counter, Free free)
      : data_(data), bytes_(bytes), counter_(counter), free_(free) {
    counter_ += bytes_;
  }
  ~Block() override {
    static_cast<void>(free_(data_));
    counter_ -= bytes_;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
  std::atomic<int64_t>& counter_;
  Free free_;
};

gpuError_t free_device(void* data) { return gpuFree(data); }
gpuError_t free_page_locked(void* data) { return gpuFreeHost(data); }

gpuError_t counted(MemoryAccount& account, gpuError_t (*allocate)(void**, size_t), void** data,
                   int64_t bytes) {
  if (account.next_fails()) return gpuErrorOutOfMemory;
  const gpuError_t error = allocate(data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (error != gpuSuccess) static_cast<void>(gpuGetLastError());  // it is reported here and now
  return error;
}

}  // namespace

Status no_device_memory(const std::string& what) {
  size_t free = 0;
  size_t total = 0;
  static_cast<void>(gpuMemGetInfo(&free, &total));
  return out_of_memory("no room on the device for " + what + "; " + std::to_string(free) + " of " +
                       std::to_string(total) + " bytes are free");
}

Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_device(MemoryAccount& account,
                                                                     int64_t bytes,
                                                                     const std::string& name) {
  void* data = nullptr;
  const auto allocate = [](void** where, size_t size) { return gpuMalloc(where, size); };
  const gpuError_t error = counted(account, allocate, &data, bytes);
  if (error == gpuErrorOutOfMemory) {
    return no_device_memory(name + " of " + std::to_string(bytes) + " bytes");
  }
  ENCORE_RETURN_IF_ERROR(gpu_status(error, "allocating " + name));
  return std::unique_ptr<lowering::DeviceMemoryBlock>(std::make_unique<Block>(
      static_cast<std::byte*>(data), bytes, account.device_bytes, free_device));
}

Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_page_locked(MemoryAccount& account,
                                                                          int64_t bytes,
                                                                          const std::string& name) {
  void* data = nullptr;
  const auto allocate = [](void** where, size_t size) { return gpuHostAlloc(where, size, 0); };
  const gpuError_t error = counted(account, allocate, &data, bytes);
  if (error == gpuErrorOutOfMemory) {
    return out_of_memory("no page-locked host memory for " + name + " of " + std::to_string(bytes) +
                         " bytes; raise the limit on locked memory or lower the sizes");
  }
  ENCORE_RETURN_IF_ERROR(gpu_status(error, "allocating " + name));
  return std::unique_ptr<lowering::DeviceMemoryBlock>(std::make_unique<Block>(
      static_cast<std::byte*>(data), bytes, account.host_bytes, free_page_locked));
}

}  // namespace encore::gpu
