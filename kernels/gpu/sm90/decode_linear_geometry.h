// Host arithmetic of the weight-streaming product: how a shape and a tuning become a grid and a
// ring.
#pragma once

#include "sm90/decode_linear_pick.h"
#include "sm90/decode_linear_tuning.h"

namespace encore::gpu {

struct DecodeGeometry {
  DecodeForm form;
  int token_tile = 0;  // m rounded up: 8, 16, 32 or 64
  int split = 0;
  int num_row_groups = 0;
  int num_clusters = 0;
  int k_steps = 0;
  int stages = 0;  // below 2: does not fit
  int threads = 0;
  int smem_bytes = 0;
  int num_sumsq_out = 0;
};

// REQUIRES: a served problem, a tuning with positive fields.
DecodeGeometry decode_geometry(const DecodeLinearProblem& problem, const DecodeTuning& tuning,
                               int num_sms);

// Whether a kernel exists, k can be split so and the ring has at least two stages.
bool decode_geometry_valid(const DecodeLinearProblem& problem, const DecodeGeometry& geometry);

DecodeKernel pick_decode_kernel(int token_tile, const DecodeForm& form);

}  // namespace encore::gpu
