// How a team of threads calls a kernel together.
//
// Every thread of a persistent team calls the same kernel with the same arguments and its own
// `Worker`; the kernel divides the work by `index` and `count` and may meet the team at `barrier`.
// Kernels never allocate, lock or throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace encore::kernels {

// A barrier that a fixed team passes any number of times.
// Threads: `wait` is called by all members; the constructor and destructor by one, alone.
// Spins first, because the members arrive within a microsecond of each other, and yields the
// processor when they do not, because the machine may run more threads than it has cores.
class Barrier {
 public:
  // REQUIRES: count >= 1. A barrier of one never waits.
  explicit Barrier(int32_t count) : count_(count) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all `count` members have called it. What a member wrote before is visible to all
  // members after.
  void wait() noexcept;

  int32_t count() const { return count_; }

 private:
  const int32_t count_;
  // Apart, so that arrivals do not disturb those who watch the generation.
  alignas(64) std::atomic<int32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// One thread's place in the team. `barrier` may be null if `count` is 1.
struct Worker {
  int32_t index = 0;             // 0 .. count - 1
  int32_t count = 1;             // threads in the team
  Barrier* barrier = nullptr;    // shared by the team
  std::byte* scratch = nullptr;  // this thread's own, 64-byte aligned
  size_t scratch_bytes = 0;

  void wait() const noexcept {
    if (count > 1) barrier->wait();
  }
};

// Worker `index`'s share [begin, end) of `total` items, contiguous and balanced to one item.
struct Share {
  int64_t begin;
  int64_t end;
};
constexpr Share share_of(int64_t total, int32_t index, int32_t count) {
  return {total * index / count, total * (index + 1) / count};
}

}  // namespace encore::kernels
