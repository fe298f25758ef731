// When an encoding may end before its text does.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

namespace encore {

struct EncodeBounds {
  // As soon as there are more ids than this, the rest of the text is left out.
  int64_t max_ids = std::numeric_limits<int64_t>::max();
  // Whether nobody waits for the ids any more; empty: somebody does.
  std::function<bool()> abandoned;
};

// Asks EncodeBounds::abandoned, which costs more than a word, once in a while. One encoding's.
class AbandonCheck {
 public:
  explicit AbandonCheck(const EncodeBounds& bounds) : abandoned_(bounds.abandoned) {}

  // To be called for every word and every merge; stays true once it is.
  bool operator()() {
    if (++num_calls_ % kCallsBetween == 0 && abandoned_) is_abandoned_ = abandoned_();
    return is_abandoned_;
  }
  bool said_so() const { return is_abandoned_; }

 private:
  static constexpr int32_t kCallsBetween = 1024;

  const std::function<bool()>& abandoned_;
  uint32_t num_calls_ = 0;
  bool is_abandoned_ = false;
};

}  // namespace encore
