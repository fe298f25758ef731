#include "metrics/token_times.h"

#include <cassert>
#include <utility>

namespace encore {
namespace {

constexpr size_t kFirstSlots = 256;

}  // namespace

TokenTimes::TokenTimes() : slots_(kFirstSlots) {}

// Ids are given out in order: multiplying spreads them (Knuth, The Art of Computer Programming,
// volume 3, section 6.4: the golden ratio).
size_t TokenTimes::home(RequestId request) const {
  return static_cast<size_t>((request * 0x9E3779B97F4A7C15ULL) >> 32) & (slots_.size() - 1);
}

size_t TokenTimes::find(RequestId request) const {
  size_t slot = home(request);
  while (slots_[slot].request != 0 && slots_[slot].request != request) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slot;
}

int64_t TokenTimes::exchange(RequestId request, int64_t us) {
  assert(request != 0 && us >= 0);
  Slot* slot = &slots_[find(request)];
  if (slot->request == request) return std::exchange(slot->us, us);
  if (2 * (size_ + 1) > slots_.size()) {
    grow();
    slot = &slots_[find(request)];
  }
  *slot = Slot{request, us};
  ++size_;
  return -1;
}

int64_t TokenTimes::take(RequestId request) {
  size_t hole = find(request);
  if (slots_[hole].request != request) return -1;
  const int64_t us = slots_[hole].us;
  // Whoever was pushed past the hole moves up, so that nobody is lost behind a free slot.
  const size_t mask = slots_.size() - 1;
  for (size_t next = (hole + 1) & mask; slots_[next].request != 0; next = (next + 1) & mask) {
    const size_t distance = (next - home(slots_[next].request)) & mask;
    if (distance >= ((next - hole) & mask)) {
      slots_[hole] = slots_[next];
      hole = next;
    }
  }
  slots_[hole] = Slot();
  --size_;
  return us;
}

void TokenTimes::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.request != 0) slots_[find(slot.request)] = slot;
  }
}

}  // namespace encore
