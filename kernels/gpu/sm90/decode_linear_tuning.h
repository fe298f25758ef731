// The choices of the weight-streaming product that change its speed, and the candidates of a shape.
#pragma once

#include <vector>

#include "kernels/gpu/decode_linear.h"

namespace encore::gpu {

// See DecodeShape and DecodeParams for what the fields mean.
struct DecodeTuning {
  int warpgroups = 1;
  int tiles = 1;
  int sets = 1;
  int split = 1;       // 1, 2 or 4; divides k / 64
  int smem_bytes = 0;  // budget of a block; up to kHalfSmemBytes two blocks share an SM
  int trigger_steps = 4;
  int blocks_per_sm = 1;  // direct form: how many blocks an SM gets to begin with

  int row_tiles() const { return warpgroups * tiles; }
};

inline constexpr int kHalfSmemBytes = 113 * 1024;  // half of 228 KB, less 1 KB reserved a block
inline constexpr int kWholeSmemBytes = 227 * 1024;

// Best known choice first; then others worth timing. All can be planned. `num_sms`: of the device.
std::vector<DecodeTuning> decode_tunings(const DecodeLinearProblem& problem, int num_sms);

// As decode_linear_plan(), with a tuning of the caller's. Errors: invalid value also for a tuning
// without a kernel, a split that does not divide k / 64, or a budget under two ring stages.
LaunchError decode_linear_plan_tuned(const DecodeLinearProblem& problem, const DecodeTuning& tuning,
                                     DecodeLinearPlan* plan);

// Multiprocessors of the current device; 0 if there is none.
int decode_num_sms();

}  // namespace encore::gpu
