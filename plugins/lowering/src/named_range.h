// A range of host code that the vendor's profiler shows by name.
#pragma once

#include <cstdint>
#include <string_view>

#include "encore/lowering/device.h"

namespace encore::lowering {

// Ends with its scope, on the thread that began it.
class NamedRange {
 public:
  // "decode 64"; without a size, the name alone.
  NamedRange(Device& device, std::string_view name, int32_t size) : device_(device) {
    device_.begin_range(name, size);
  }
  ~NamedRange() { device_.end_range(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;

 private:
  Device& device_;
};

}  // namespace encore::lowering
