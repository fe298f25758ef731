#include "kernels/cpu/worker.h"

#include <sched.h>

namespace encore::kernels {
namespace {

// About 20 microseconds: longer than the members differ when all have a core of their own.
constexpr int kSpinsBeforeYield = 2000;

}  // namespace

void Barrier::wait() noexcept {
  if (count_ == 1) return;
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  int spins = 0;
  while (generation_.load(std::memory_order_acquire) == generation) {
    if (++spins < kSpinsBeforeYield) {
      __builtin_ia32_pause();
    } else {
      sched_yield();
    }
  }
}

}  // namespace encore::kernels
