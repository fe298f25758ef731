// Device memory and page-locked host memory, with an account of what is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "encore/lowering/device.h"
#include "encore/status.h"

namespace encore::gpu {

// What one backend has taken. Any thread.
struct MemoryAccount {
  std::atomic<int64_t> device_bytes = 0;
  std::atomic<int64_t> host_bytes = 0;
  std::atomic<int64_t> num_allocations = 0;  // ever tried: device, host, graphs' executables
  // The allocation of this number (from 1) fails as if memory had run out; 0: none does. A test
  // aid.
  int64_t failing_allocation = 0;

  // Counts one more; whether it is the one to fail.
  bool next_fails() { return ++num_allocations == failing_allocation; }
};

// kOutOfMemory: "no room on the device for WHAT; F of T bytes are free", of the current device.
Status no_device_memory(const std::string& what);

// On the current device. Contents are undefined. The account outlives the block.
// Errors: kOutOfMemory naming `name`, the size, and what is free.
Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_device(MemoryAccount& account,
                                                                     int64_t bytes,
                                                                     const std::string& name);
Result<std::unique_ptr<lowering::DeviceMemoryBlock>> allocate_page_locked(MemoryAccount& account,
                                                                          int64_t bytes,
                                                                          const std::string& name);

}  // namespace encore::gpu
