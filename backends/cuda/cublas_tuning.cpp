#include "cublas_tuning.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "stream_timer.h"

namespace encore::cuda {
namespace {

constexpr int kMaxCandidates = 16;
// A candidate this much slower than the best at first sight is not timed again.
constexpr float kHopeless = 1.3F;
// Long enough that the clock's half microsecond and the gap before the first call do not decide.
constexpr float kTimedUs = 400.0F;
constexpr int kMaxRepeats = 20;
constexpr int kRounds = 3;
// Long products slow the device down while they are timed, and the fastest round may just have been
// the coolest. So the best of them are timed again, in turns.
constexpr float kLongUs = 200.0F;
constexpr float kClose = 1.08F;  // to the best so far, to be timed again
constexpr size_t kMaxFinalists = 3;
constexpr int kTurns = 3;
constexpr float kTurnUs = 6000.0F;

// Times one algorithm of a product.
class Trial {
 public:
  Trial(CublasProduct& product, const gpu::ProductOperands& operands,
        std::span<const void* const> weights, const Workspace& workspace, cudaStream_t stream,
        gpu::StreamTimer& timer)
      : product_(product),
        operands_(operands),
        weights_(weights),
        workspace_(workspace),
        stream_(stream),
        timer_(timer) {}

  // Microseconds, or an error if the algorithm does not run. Gives up once it cannot beat `best`.
  Result<float> time_us(const cublasLtMatmulAlgo_t& algorithm, float best) {
    ENCORE_RETURN_IF_ERROR(enqueue(algorithm));  // loads the kernel
    ENCORE_ASSIGN_OR_RETURN(float us, measure(algorithm, 1));
    if (us > kHopeless * best) return us;
    const int repeats = std::clamp(static_cast<int>(kTimedUs / us), 1, kMaxRepeats);
    float fastest = std::numeric_limits<float>::max();
    for (int round = 0; round < kRounds; ++round) {
      ENCORE_ASSIGN_OR_RETURN(us, measure(algorithm, repeats));
      fastest = std::min(fastest, us);
    }
    return fastest;
  }

  Result<float> measure(const cublasLtMatmulAlgo_t& algorithm, int repeats) {
    return timer_.measure_us(stream_, repeats, [&](int) { return enqueue(algorithm); });
  }

 private:
  Status enqueue(const cublasLtMatmulAlgo_t& algorithm) {
    if (!weights_.empty()) operands_.w = weights_[turn_++ % weights_.size()];
    return product_.run(algorithm, operands_, workspace_, stream_);
  }

  CublasProduct& product_;
  gpu::ProductOperands operands_;
  std::span<const void* const> weights_;
  const Workspace& workspace_;
  cudaStream_t stream_;
  gpu::StreamTimer& timer_;
  size_t turn_ = 0;
};

struct Timed {
  const cublasLtMatmulAlgo_t* algorithm = nullptr;
  float us = 0.0F;
};

bool faster(const Timed& a, const Timed& b) { return a.us < b.us; }

// Of long products: the fastest of the best few over all turns. REQUIRES: `timed` is sorted.
Result<const cublasLtMatmulAlgo_t*> fastest_in_turns(Trial& trial, std::vector<Timed> timed) {
  const float best_us = timed.front().us;
  std::erase_if(timed, [&](const Timed& one) { return one.us > kClose * best_us; });
  if (timed.size() > kMaxFinalists) timed.resize(kMaxFinalists);
  if (timed.size() == 1) return timed.front().algorithm;
  const int repeats = std::max(1, static_cast<int>(kTurnUs / best_us));
  for (Timed& one : timed) one.us = 0.0F;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Timed& one : timed) {
      ENCORE_ASSIGN_OR_RETURN(const float us, trial.measure(*one.algorithm, repeats));
      one.us += us;
    }
  }
  return std::min_element(timed.begin(), timed.end(), faster)->algorithm;
}

}  // namespace

Result<cublasLtMatmulAlgo_t> fastest_algorithm(CublasProduct& product,
                                               const gpu::ProductOperands& operands,
                                               std::span<const void* const> weights,
                                               const Workspace& workspace, cudaStream_t stream) {
  ENCORE_ASSIGN_OR_RETURN(const std::unique_ptr<gpu::StreamTimer> timer,
                          gpu::StreamTimer::create());
  ENCORE_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> candidates,
                          product.candidates(workspace.bytes, kMaxCandidates));
  Trial trial(product, operands, weights, workspace, stream, *timer);
  float best_us = std::numeric_limits<float>::max();
  std::vector<Timed> timed;
  Status refusal;
  for (const cublasLtMatmulAlgo_t& candidate : candidates) {
    const Result<float> us = trial.time_us(candidate, best_us);
    // The library may list what it then refuses to run; a fault of the device is another matter.
    if (!us.ok() && us.status().code() != StatusCode::kUnimplemented) return us.status();
    if (!us.ok()) {
      refusal = us.status();
    } else {
      best_us = std::min(best_us, *us);
      timed.push_back({&candidate, *us});
    }
  }
  if (timed.empty()) return refusal;
  std::sort(timed.begin(), timed.end(), faster);
  if (best_us < kLongUs) return *timed.front().algorithm;
  ENCORE_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t* best,
                          fastest_in_turns(trial, std::move(timed)));
  return *best;
}

}  // namespace encore::cuda
