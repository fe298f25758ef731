// Whether a line that could come many times a second is due.
#pragma once

#include <cstdint>

namespace encore {

// For one kind of line: at most one every 10 s; counters have the rest. One thread's.
class LogInterval {
 public:
  bool due(int64_t now_ms) {
    if (logged_ && now_ms - last_ms_ < kIntervalMs) return false;
    logged_ = true;
    last_ms_ = now_ms;
    return true;
  }

 private:
  static constexpr int64_t kIntervalMs = 10'000;

  bool logged_ = false;
  int64_t last_ms_ = 0;
};

}  // namespace encore
