#include "transfer.h"

#include <cstring>
#include <string>

#include "memory.h"
#include "misuse.h"

namespace encore::standin {
namespace {

bool on_device(const void* address) {
  const Allocation* memory = allocation_of(address);
  return memory != nullptr && memory->kind == Kind::kDevice;
}

// Empty, or what is wrong with a copy's or fill's memory.
std::string fault_of_copy(const void* to, const void* from, size_t bytes) {
  const std::string written = fault_of(to, bytes);
  if (!written.empty()) return "a copy to " + written;
  const std::string read = fault_of(from, bytes);
  return read.empty() ? std::string() : "a copy from " + read;
}

std::string fault_of_fill(const void* to, size_t bytes) {
  const std::string written = fault_of(to, bytes);
  if (!written.empty()) return "a fill of " + written;
  return on_device(to) ? std::string() : "a fill of memory that is no device's";
}

hipError_t noted(const std::string& fault, hipError_t error) {
  if (fault.empty()) return hipSuccess;
  note_misuse(fault);
  return error;
}

class CopyOperation final : public Operation {
 public:
  CopyOperation(void* to, const void* from, size_t bytes) : to_(to), from_(from), bytes_(bytes) {}
  std::string what() const override { return "a copy of " + std::to_string(bytes_) + " bytes"; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeMemcpy; }
  hipError_t run() override {
    const hipError_t error = noted(fault_of_copy(to_, from_, bytes_), hipErrorIllegalAddress);
    if (error != hipSuccess) return error;
    const FaultMessage message("a copy");
    std::memmove(to_, from_, bytes_);
    return hipSuccess;
  }

 private:
  void* to_;
  const void* from_;
  size_t bytes_;
};

class FillOperation final : public Operation {
 public:
  FillOperation(void* to, int byte, size_t bytes) : to_(to), byte_(byte), bytes_(bytes) {}
  std::string what() const override { return "a fill of " + std::to_string(bytes_) + " bytes"; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeMemset; }
  hipError_t run() override {
    const hipError_t error = noted(fault_of_fill(to_, bytes_), hipErrorIllegalAddress);
    if (error != hipSuccess) return error;
    const FaultMessage message("a fill");
    std::memset(to_, byte_, bytes_);
    return hipSuccess;
  }

 private:
  void* to_;
  int byte_;
  size_t bytes_;
};

class FreeOperation final : public Operation {
 public:
  explicit FreeOperation(void* data) : data_(data) {}
  std::string what() const override { return "a free"; }
  hipGraphNodeType type() const override { return hipGraphNodeTypeEmpty; }
  hipError_t run() override { return release(Kind::kDevice, data_); }

 private:
  void* data_;
};

bool direction_fits(const void* to, const void* from, hipMemcpyKind kind) {
  switch (kind) {
    case hipMemcpyHostToHost:
      return !on_device(to) && !on_device(from);
    case hipMemcpyHostToDevice:
      return on_device(to) && !on_device(from);
    case hipMemcpyDeviceToHost:
      return !on_device(to) && on_device(from);
    case hipMemcpyDeviceToDevice:
      return on_device(to) && on_device(from);
    default:
      return kind == hipMemcpyDefault;
  }
}

}  // namespace

hipError_t make_copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                     std::shared_ptr<Operation>* copy) {
  const hipError_t error = noted(fault_of_copy(to, from, bytes), hipErrorInvalidValue);
  if (error != hipSuccess) return error;
  if (bytes > 0 && !direction_fits(to, from, kind)) {
    return noted("a copy whose direction, " + std::to_string(kind) + ", is not that of its memory",
                 hipErrorInvalidMemcpyDirection);
  }
  *copy = std::make_shared<CopyOperation>(to, from, bytes);
  return hipSuccess;
}

hipError_t make_fill(void* to, int byte, size_t bytes, std::shared_ptr<Operation>* fill) {
  if (bytes > 0) {
    const hipError_t error = noted(fault_of_fill(to, bytes), hipErrorInvalidValue);
    if (error != hipSuccess) return error;
  }
  *fill = std::make_shared<FillOperation>(to, byte, bytes);
  return hipSuccess;
}

std::shared_ptr<Operation> make_free(void* data) { return std::make_shared<FreeOperation>(data); }

}  // namespace encore::standin
