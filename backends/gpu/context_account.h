// What the driver's contexts of this process take on its devices.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include "encore/status.h"

namespace encore::gpu {

// A run-time library can tell how much of a device is in use only once there is a context on it,
// and then others' memory and the context's own look the same. So the use is asked of somebody
// else, before and after. May be called from any thread.
class ContextAccount {
 public:
  // Bytes in use on a device, by whomever, told without making a context there; nothing if nobody
  // tells.
  using Use = std::function<std::optional<int64_t>()>;

  // The first time for a device: makes the context with `make`, and adds up by how much this has
  // raised the device's use; nothing is added if nobody tells. Later: does nothing.
  // Errors: those of `make`, which is then called again the next time.
  Status make_once(int32_t device, const Use& use, const std::function<Status()>& make);

  // Of all contexts together.
  int64_t bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::set<int32_t> made_;
  std::atomic<int64_t> bytes_ = 0;
};

}  // namespace encore::gpu
