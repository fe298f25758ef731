#include "rank_meeting.h"

#include <sched.h>

#include <chrono>
#include <string>

namespace encore::cpu {
namespace {

// About 20 us: longer than ranks differ when all have cores of their own.
constexpr int32_t kSpinsBeforeYield = 2000;

void pause_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

RankMeeting::RankMeeting(int32_t size, int64_t limit_us)
    : limit_us_(limit_us), ranks_(static_cast<size_t>(size)) {}

bool RankMeeting::arrive(int32_t rank, void* data) noexcept {
  if (!open()) return false;  // others may still read what this rank showed
  Rank& self = ranks_[static_cast<size_t>(rank)];
  const uint64_t arrivals = self.arrivals.load(std::memory_order_relaxed) + 1;
  if (data != nullptr) self.data = data;
  self.arrivals.store(arrivals, std::memory_order_release);
  for (int32_t other = 0; other < size(); ++other) {
    if (!await(other, arrivals)) return false;
  }
  return open();
}

bool RankMeeting::await(int32_t rank, uint64_t arrivals) noexcept {
  const std::atomic<uint64_t>& found = ranks_[static_cast<size_t>(rank)].arrivals;
  for (int32_t spin = 0; spin < kSpinsBeforeYield; ++spin) {
    if (found.load(std::memory_order_acquire) >= arrivals) return true;
    pause_once();
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(limit_us_);
  while (found.load(std::memory_order_acquire) < arrivals) {
    if (!open()) return false;
    if (std::chrono::steady_clock::now() >= end) {
      close(rank);
      return false;
    }
    sched_yield();
  }
  return true;
}

void RankMeeting::close(int32_t missing) noexcept {
  int32_t nobody = -1;
  missing_.compare_exchange_strong(nobody, missing);
  closed_.store(true, std::memory_order_release);
}

Status RankMeeting::status() const {
  if (open()) return {};
  const int32_t missing = missing_.load();
  if (missing < 0) return cancelled("the other ranks gave up");
  return deadline_exceeded("rank " + std::to_string(missing) +
                           " did not come to a collective within " +
                           std::to_string(limit_us_ / 1000) + " ms");
}

}  // namespace encore::cpu
