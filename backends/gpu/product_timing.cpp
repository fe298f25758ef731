#include "product_timing.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "stream_timer.h"

namespace encore::gpu {
namespace {

// A candidate this much slower than the best at first sight is not timed again.
constexpr float kHopeless = 1.3F;
// Nor one that is so much slower after a whole round.
constexpr float kUnlikely = 1.1F;
// Long enough that the clock's half microsecond and the gap before the first call do not decide.
constexpr float kTimedUs = 400.0F;
constexpr float kMinUs = 1.0F;  // no product takes less; a coarse clock may say 0
constexpr int kMaxRepeats = 20;
constexpr int kRounds = 3;
// Long products slow the device down while they are timed, and the fastest round may just have been
// the coolest. So the best of them are timed again, in turns.
constexpr float kLongUs = 200.0F;
constexpr float kClose = 1.08F;  // to the best so far, to be timed again
constexpr size_t kMaxFinalists = 3;
constexpr int kTurns = 3;
constexpr float kTurnUs = 6000.0F;

// Times algorithms of one product.
class Trial {
 public:
  Trial(const EnqueueCandidate& enqueue, const void* w, std::span<const void* const> weights,
        gpuStream_t stream, StreamTimer& timer)
      : enqueue_(enqueue), w_(w), weights_(weights), stream_(stream), timer_(timer) {}

  // Microseconds, or an error if the algorithm does not run. Gives up once it cannot beat `best`.
  Result<float> time_us(size_t candidate, float best) {
    ENCORE_RETURN_IF_ERROR(enqueue(candidate));  // loads the kernel
    ENCORE_ASSIGN_OR_RETURN(float us, measure(candidate, 1));
    if (us > kHopeless * best) return us;
    const int repeats = std::clamp(static_cast<int>(kTimedUs / us), 1, kMaxRepeats);
    float fastest = std::numeric_limits<float>::max();
    for (int round = 0; round < kRounds; ++round) {
      ENCORE_ASSIGN_OR_RETURN(us, measure(candidate, repeats));
      fastest = std::min(fastest, us);
      if (fastest > kUnlikely * best) break;
    }
    return fastest;
  }

  Result<float> measure(size_t candidate, int repeats) {
    ENCORE_ASSIGN_OR_RETURN(const float us, timer_.measure_us(stream_, repeats, [&](int) {
      return enqueue(candidate);
    }));
    return std::max(us, kMinUs);
  }

 private:
  Status enqueue(size_t candidate) {
    const void* w = weights_.empty() ? w_ : weights_[turn_++ % weights_.size()];
    return enqueue_(candidate, w);
  }

  const EnqueueCandidate& enqueue_;
  const void* w_;
  std::span<const void* const> weights_;
  gpuStream_t stream_;
  StreamTimer& timer_;
  size_t turn_ = 0;
};

struct Timed {
  size_t candidate = 0;
  float us = 0.0F;
};

bool faster(const Timed& a, const Timed& b) { return a.us < b.us; }

// Of long products: the fastest of the best few over all turns. REQUIRES: `timed` is sorted.
Result<size_t> fastest_in_turns(Trial& trial, std::vector<Timed> timed) {
  const float best_us = timed.front().us;
  std::erase_if(timed, [&](const Timed& one) { return one.us > kClose * best_us; });
  if (timed.size() > kMaxFinalists) timed.resize(kMaxFinalists);
  if (timed.size() == 1) return timed.front().candidate;
  const int repeats = std::max(1, static_cast<int>(kTurnUs / best_us));
  for (Timed& one : timed) one.us = 0.0F;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Timed& one : timed) {
      ENCORE_ASSIGN_OR_RETURN(const float us, trial.measure(one.candidate, repeats));
      one.us += us;
    }
  }
  return std::min_element(timed.begin(), timed.end(), faster)->candidate;
}

}  // namespace

Result<size_t> fastest_candidate(size_t count, const EnqueueCandidate& enqueue, const void* w,
                                 std::span<const void* const> weights, gpuStream_t stream) {
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamTimer> timer, StreamTimer::create());
  Trial trial(enqueue, w, weights, stream, *timer);
  float best_us = std::numeric_limits<float>::max();
  std::vector<Timed> timed;
  Status refusal;
  for (size_t candidate = 0; candidate < count; ++candidate) {
    const Result<float> us = trial.time_us(candidate, best_us);
    // A fault of the device is another matter than a refusal.
    if (!us.ok() && us.status().code() != StatusCode::kUnimplemented) return us.status();
    if (!us.ok()) {
      refusal = us.status();
    } else {
      best_us = std::min(best_us, *us);
      timed.push_back({candidate, *us});
    }
  }
  if (timed.empty()) return refusal;
  std::sort(timed.begin(), timed.end(), faster);
  if (best_us < kLongUs) return timed.front().candidate;
  return fastest_in_turns(trial, std::move(timed));
}

}  // namespace encore::gpu
