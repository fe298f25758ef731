// Device memory and page-locked host memory.
//
// Each allocation is a mapping of its own: it ends at a page that nobody may touch, and so does
// what lies before it, but for the rest of a page that is filled with guard bytes. Freed memory
// stays mapped without access, so that late reads and writes of kernels end the process with a
// message.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace encore::standin {

enum class Kind { kDevice, kPageLocked };

struct Allocation {
  std::byte* data = nullptr;
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;  // whose it is; of page-locked memory, who was current
  std::byte* mapping = nullptr;
  size_t mapping_bytes = 0;
};

// Device memory starts as bytes of 0xff: a NaN in every floating-point format.
// Errors: hipErrorOutOfMemory, naming nothing.
hipError_t allocate(Kind kind, int device, size_t bytes, void** data);

// Errors: hipErrorInvalidValue, noted as misuse, unless `data` is an allocation of this kind that
// lives. Overwritten guard bytes are noted as misuse.
hipError_t release(Kind kind, void* data);

// The allocation that contains the address; null if none that lives does.
const Allocation* allocation_of(const void* address);

// Empty if `bytes` from `address` on lie within one allocation, or within memory that the stand-in
// knows nothing of; else what is wrong.
std::string fault_of(const void* address, size_t bytes);

// What allocations, executables and others have left.
uint64_t free_bytes(int device);

// What is allocated: how many, how much.
struct Holdings {
  int64_t count = 0;
  int64_t bytes = 0;
};
Holdings holdings(Kind kind);
// Notes misuse for each living allocation whose guard bytes are overwritten.
void check_guards();

// For the time that it lives, a fault of this thread's memory accesses ends the process with a line
// that names `what` and the allocation next to the address.
class FaultMessage {
 public:
  explicit FaultMessage(const char* what);
  ~FaultMessage();
  FaultMessage(const FaultMessage&) = delete;
  FaultMessage& operator=(const FaultMessage&) = delete;
};

}  // namespace encore::standin
