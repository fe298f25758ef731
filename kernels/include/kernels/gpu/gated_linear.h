// The gated half of an MLP for many rows, on Hopper: one product instead of two kernels.
//
//   y[m, j] = silu(g[m, j]) * g[m, n/2 + j],   g[m, n] = sum_k x[m, k] * w[n, k] + bias[n]
//
// bf16 operands, f32 accumulation; g is rounded to bf16 once, as if it had been stored. Rows of y
// from the live count on are not touched, and groups of rows without a live one cost nothing. A
// row's bits do not depend on the other rows nor on how many there are, and every run of a plan
// gives the same.
//
// Weights may be read before the kernel ahead in the stream has finished, so none may write them.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

struct GatedLinearProblem {
  LiveRows rows;               // `live` null: all of `maximum`
  int32_t n = 0;               // a multiple of 16
  int32_t k = 0;               // a multiple of 64, at least 512
  const void* w = nullptr;     // [n, k] bf16: gate, then up
  const void* x = nullptr;     // [rows, k] bf16; rows past the live ones may hold anything
  void* y = nullptr;           // [rows, n/2] bf16
  const void* bias = nullptr;  // [n] bf16 or null
};

// A checked, launchable product. Trivially copyable; holds no resources. Opaque to callers.
struct GatedLinearPlan {
  alignas(64) unsigned char storage[512];
};

// Whether the shape is served at all: see the fields; pointers aligned to 16 bytes.
bool gated_linear_serves(const GatedLinearProblem& problem);

// Variants on the current device, for choosing by timing; they are the same for every served
// problem, and give the same bits. 0 if the shape is not served, or the device is not of compute
// capability 9.0.
int32_t gated_linear_num_variants(const GatedLinearProblem& problem);

// Checks and encodes tensor maps, for the current device. Enqueues nothing.
// Errors: the vendor's invalid value or not supported.
LaunchError gated_linear_plan(const GatedLinearProblem& problem, int32_t variant,
                              GatedLinearPlan* plan);

LaunchError gated_linear_run(const GatedLinearPlan& plan, const Launch& launch);

}  // namespace encore::gpu
