// What every launch function of kernels/gpu takes and gives.
//
// A launch function checks its arguments, enqueues one kernel (or a fixed few) on a stream, and
// returns. It allocates nothing, synchronises nothing, and may be captured. Pointers are device
// memory unless a comment says "host". Live counts are read on the device when the kernel runs, so
// that one captured launch serves any number of rows up to the one it was recorded with; threads
// without work leave at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace encore::gpu {

// The vendor run-time's error code; 0 is success.
using LaunchError = int32_t;

// Where and how a kernel is enqueued.
struct Launch {
  void* stream = nullptr;  // the vendor's stream handle
  // The kernel may start while the one before it in the stream still runs: it waits for that one's
  // memory by itself (programmatic dependent launch). Ignored where the device has no such thing.
  bool overlap = false;
  int32_t lanes = 32;  // of the device's warps: DeviceTraits::lanes
};

// Numbers equal those of encore::DType.
enum class Element : int32_t { kF32 = 1, kF16 = 2, kBF16 = 3 };

constexpr int32_t element_bytes(Element element) { return element == Element::kF32 ? 4 : 2; }

// How many rows a kernel covers: `*live` of them now, `maximum` at most.
struct LiveRows {
  const int32_t* live = nullptr;
  int32_t maximum = 0;
};

}  // namespace encore::gpu
