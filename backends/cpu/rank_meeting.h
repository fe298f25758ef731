// Where the ranks of one model meet: threads of this process that lend each other their buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "encore/status.h"

namespace encore::cpu {

// A barrier at which each rank shows a pointer. Unlike a team's own barrier it does not wait for
// ever: a rank that fails or hangs must not take the others with it.
// Threads: each rank arrives from one thread at a time; abort() and status() from any.
class RankMeeting {
 public:
  // `limit_us`: how long a rank waits for the others.
  RankMeeting(int32_t size, int64_t limit_us);

  int32_t size() const { return static_cast<int32_t>(ranks_.size()); }

  // Shows `data` (null: what it showed before, which others may still look at) and returns when all
  // ranks have come. Whatever a rank wrote before is visible to all after. False, at once, from the
  // first time on that a rank did not come or abort() was called: then the ranks no longer stand at
  // the same place, and nothing may be read.
  bool arrive(int32_t rank, void* data) noexcept;
  // What the rank showed when it last arrived.
  void* data(int32_t rank) const { return ranks_[static_cast<size_t>(rank)].data; }
  bool open() const { return !closed_.load(std::memory_order_acquire); }

  void abort() noexcept { close(-1); }
  // Errors: kDeadlineExceeded naming the rank that did not come; kCancelled after abort().
  Status status() const;

 private:
  struct alignas(64) Rank {
    std::atomic<uint64_t> arrivals{0};
    void* data = nullptr;
  };
  bool await(int32_t rank, uint64_t arrivals) noexcept;
  void close(int32_t missing) noexcept;

  int64_t limit_us_;
  std::vector<Rank> ranks_;
  std::atomic<bool> closed_{false};
  std::atomic<int32_t> missing_{-1};
};

}  // namespace encore::cpu
