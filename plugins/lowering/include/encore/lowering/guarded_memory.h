// Device memory with canary bytes at both ends, and the list that checks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/status.h"

namespace encore::lowering {

class GuardList;

// A named piece of device memory. With guards, 64 bytes before and after it hold a pattern that
// nothing may change. Registers itself with a GuardList for its life.
class GuardedMemory {
 public:
  static constexpr int64_t kGuardBytes = 64;
  static constexpr uint8_t kGuardValue = 0xC5;

  // Errors: kOutOfMemory from the device.
  static Result<std::unique_ptr<GuardedMemory>> create(Device& device, GuardList& list,
                                                       std::string name, int64_t bytes,
                                                       bool guards);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const;
  int64_t bytes() const { return bytes_; }                  // usable, guards excluded
  int64_t device_bytes() const { return block_->bytes(); }  // taken, guards included
  const std::string& name() const { return name_; }

  // Errors: kInternal naming the buffer and the first damaged byte.
  Status check(Device& device) const;

 private:
  GuardedMemory(GuardList& list, std::string name, int64_t bytes, bool guards)
      : list_(list), name_(std::move(name)), bytes_(bytes), guards_(guards) {}

  GuardList& list_;
  std::string name_;
  int64_t bytes_;
  bool guards_;
  std::unique_ptr<DeviceMemoryBlock> block_;
};

// All guarded memory of a model. Outlives every GuardedMemory made with it. Any thread: a KV cache
// may be freed while another is made.
class GuardList {
 public:
  void add(const GuardedMemory* memory);
  void remove(const GuardedMemory* memory);
  // Errors: the first damaged member's.
  Status check(Device& device) const;

 private:
  mutable std::mutex mutex_;
  std::vector<const GuardedMemory*> members_;
};

}  // namespace encore::lowering
