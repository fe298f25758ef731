// Matrix product for prefill on Hopper: many rows of x meet a large matrix.
//
//   y[m, n] = epilogue( sum_k x[m, k] * w[n, k] + bias[n] )
//
// bf16 operands, f32 accumulation, bf16 results rounded once. Rows of y from the live count on are
// not touched, and groups of rows without a live one cost nothing. A row's bits do not depend on
// the other rows, and every run of a plan gives the same.
//
// Weights may be read before the kernel ahead in the stream has finished, so none may write them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

enum class PrefillEpilogue : int32_t {
  kStore = 0,    // y = acc
  kSiluMul = 1,  // y[m, j] = silu(acc[m, j]) * acc[m, n/2 + j]; w is [gate; up], y is [m, n/2]
  kAdd = 2,      // y += acc
};

struct PrefillLinearProblem {
  LiveRows rows;               // `live` null: all of `maximum`
  int32_t n = 0, k = 0;        // n: a multiple of 8 (16 for kSiluMul); k of 64
  const void* w = nullptr;     // [n, k] bf16
  const void* x = nullptr;     // [rows, k] bf16; rows past the live ones may hold anything
  void* y = nullptr;           // [rows, n] ([rows, n/2] for kSiluMul) bf16
  const void* bias = nullptr;  // [n] bf16 or null
  PrefillEpilogue epilogue = PrefillEpilogue::kStore;
};

// A checked, launchable product. Trivially copyable; holds no resources. Opaque to callers.
struct PrefillLinearPlan {
  alignas(64) unsigned char storage[512];
};

// Whether the shape is served at all: see the fields; pointers aligned to 16 bytes.
bool prefill_linear_serves(const PrefillLinearProblem& problem);

// Candidate tunings of a shape on the current device, for choosing by timing, the likely best
// first. Which there are depends on rows.maximum, n, k and epilogue. 0 if the shape is not served
// or there is no device.
int32_t prefill_linear_num_variants(const PrefillLinearProblem& problem);

// What a variant is, for tables: tile, blocks of a cluster along rows, columns and k.
std::string prefill_linear_variant_name(const PrefillLinearProblem& problem, int32_t variant);

// Checks and encodes tensor maps, for the current device. Enqueues nothing.
// Errors: the vendor's invalid value or not supported.
LaunchError prefill_linear_plan(const PrefillLinearProblem& problem, int32_t variant,
                                PrefillLinearPlan* plan);

LaunchError prefill_linear_run(const PrefillLinearPlan& plan, const Launch& launch);

}  // namespace encore::gpu
