// The decode chain's choices, for tests that want many ranges or a short ring.
#pragma once

#include "kernels/gpu/decode_chain.h"

namespace encore::gpu {

struct DecodeChainTuning {
  int blocks = 0;      // 0: one a multiprocessor, or fewer where a product has fewer steps
  int smem_bytes = 0;  // budget of a block
};

// As decode_chain_plan(). Errors: invalid value also for more blocks than multiprocessors or than a
// product's steps, or a budget under two ring stages.
LaunchError decode_chain_plan_tuned(const DecodeChainProblem& problem,
                                    const DecodeChainTuning& tuning, DecodeChainPlan* plan);

}  // namespace encore::gpu
