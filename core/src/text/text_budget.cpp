#include "text/text_budget.h"

#include <ctime>
#include <string>

namespace encore {
namespace {

constexpr std::chrono::nanoseconds kTimePerText = std::chrono::seconds(2);
constexpr std::chrono::nanoseconds kTimePerByte = std::chrono::microseconds(5);
constexpr uint32_t kMatchesPerLook = 4;

// Compatibility forms make 11 bytes of one, and spelling a space takes 3.
constexpr size_t kGrowthPerText = 1024;
constexpr size_t kGrowthPerByte = 16;

std::chrono::nanoseconds read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

TextBudget::TextBudget(size_t text_bytes)
    : growth_left_(kGrowthPerText + kGrowthPerByte * text_bytes),
      end_(read_clock(CLOCK_THREAD_CPUTIME_ID) + kTimePerText + kTimePerByte * text_bytes) {}

// The thread's time decides, since other work on the machine must not. Reading it costs as much as
// a few matches, so that is left until the coarse clock, which costs next to nothing, has gone on.
bool TextBudget::spend_match() {
  if (++matches_ % kMatchesPerLook != 0) return true;
  const std::chrono::nanoseconds tick = read_clock(CLOCK_MONOTONIC_COARSE);
  if (tick == last_tick_) return true;
  last_tick_ = tick;
  return read_clock(CLOCK_THREAD_CPUTIME_ID) < end_;
}

Status TextBudget::grow(size_t from_bytes, size_t to_bytes) {
  if (to_bytes <= from_bytes) return {};
  if (to_bytes - from_bytes > growth_left_) {
    return invalid_argument("the tokenizer's rules make a text grow by more than " +
                            std::to_string(kGrowthPerByte) + " times its size");
  }
  growth_left_ -= to_bytes - from_bytes;
  return {};
}

}  // namespace encore
