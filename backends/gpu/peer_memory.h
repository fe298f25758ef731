// The memory through which the GPUs of one process meet: see kernels/gpu/all_reduce.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "encore/lowering/device.h"
#include "encore/status.h"
#include "kernels/gpu/all_reduce.h"
#include "memory.h"

namespace encore::gpu {

// An inbox and counters for each rank, and the word that ends all waiting. Outlives every launch
// that was given its Peers. Threads: abort() from any.
class PeerMemory {
 public:
  // Rank r is on device ordinals[r]; ranks may share a device. Sums of up to `max_bytes` will fit.
  // Errors: kUnavailable naming two devices that cannot reach each other; kOutOfMemory.
  static Result<std::unique_ptr<PeerMemory>> create(std::vector<int32_t> ordinals,
                                                    int64_t max_bytes, MemoryAccount& account);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  Peers peers(int32_t rank) const;
  // Calls under way and later ones end without waiting, their results undefined.
  void abort();

 private:
  explicit PeerMemory(std::vector<int32_t> ordinals, int64_t max_bytes)
      : ordinals_(std::move(ordinals)), max_bytes_(max_bytes) {}
  Status reach(int32_t from, int32_t to) const;
  uint32_t* abort_word() const;

  std::vector<int32_t> ordinals_;
  int64_t max_bytes_;
  std::vector<std::unique_ptr<lowering::DeviceMemoryBlock>> inboxes_;
  std::vector<std::unique_ptr<lowering::DeviceMemoryBlock>> counters_;
  std::unique_ptr<lowering::DeviceMemoryBlock> abort_;
};

}  // namespace encore::gpu
