// Matrix product for one tile of rows, on Hopper: too many rows to stream weights past them, too
// few to fill the device with tiles.
//
//   y[m, n] = sum_k x[m, k] * w[n, k]  (+ bias[n])  (+ y[m, n])
//
// bf16 operands, f32 accumulation, one rounding. Blocks of a cluster share the sum over k. Rows of
// y from the live count on are not touched. A row's bits do not depend on the other rows nor on how
// many there are, and every run of a plan gives the same.
//
// Weights may be read before the kernel ahead in the stream has finished, so none may write them.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

inline constexpr int32_t kSplitLinearMaxRows = 128;

struct SplitLinearProblem {
  LiveRows rows;               // at most kSplitLinearMaxRows; `live` null: all of `maximum`
  int32_t n = 0;               // a multiple of 8
  int32_t k = 0;               // a multiple of 64, at least 256
  const void* w = nullptr;     // [n, k] bf16
  const void* x = nullptr;     // [rows, k] bf16; rows past the live ones may hold anything
  void* y = nullptr;           // [rows, n] bf16
  const void* bias = nullptr;  // [n] bf16 or null
  bool accumulate = false;     // adds what y held
};

// A checked, launchable product. Trivially copyable; holds no resources. Opaque to callers.
struct SplitLinearPlan {
  alignas(64) unsigned char storage[512];
};

// Whether the shape is served at all: see the fields; pointers aligned to 16 bytes.
bool split_linear_serves(const SplitLinearProblem& problem);

// Variants on the current device, for choosing by timing; they are the same for every served
// problem. 0 if the shape is not served, or the device is not of compute capability 9.0.
int32_t split_linear_num_variants(const SplitLinearProblem& problem);

// Checks and encodes tensor maps, for the current device. Enqueues nothing.
// Errors: the vendor's invalid value or not supported.
LaunchError split_linear_plan(const SplitLinearProblem& problem, int32_t variant,
                              SplitLinearPlan* plan);

LaunchError split_linear_run(const SplitLinearPlan& plan, const Launch& launch);

}  // namespace encore::gpu
