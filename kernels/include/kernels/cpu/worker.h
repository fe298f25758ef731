// One thread's part in a kernel call, and the barrier that its team shares.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace encore::kernels {

// A spin barrier for a fixed team of threads. Reusable at once; never sleeps.
class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  // Returns when all `count` threads have called it. Writes before it are seen after it.
  void wait() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    while (phase_.load(std::memory_order_acquire) == phase) pause();
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  const int count_;
};

// Handed to a kernel by each thread of a team, all of which call the kernel with the same args.
struct Worker {
  int index;              // 0 .. count - 1
  int count;              // threads in the team
  Barrier* barrier;       // the team's; null if count is 1
  std::byte* scratch;     // this thread's own, aligned to 64 bytes
  size_t scratch_bytes;   // see each kernel's scratch function
};

}  // namespace encore::kernels
