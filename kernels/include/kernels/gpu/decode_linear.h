// Weight-streaming matrix product for decode on Hopper: a few rows of x meet a large matrix.
//
//   y[m, n] = epilogue( scale[m] * sum_k x[m, k] * w[n, k] + bias[n] )
//
// bf16 operands, f32 accumulation. Every byte of w is read once, so the time is bytes(w) over
// memory bandwidth and all else hides behind the loads. A row's bits depend neither on the other
// rows nor, within variants of equal decode_linear_bits(), on how many there are.
//
// Weights are read before the kernel ahead in the stream has finished, so none may write them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

inline constexpr int32_t kDecodeLinearMaxRows = 64;

enum class DecodeEpilogue : int32_t {
  kStore = 0,    // y = acc, as `output` says
  kSiluMul = 1,  // y[m, j] = silu(acc[m, j]) * acc[m, n/2 + j]; w is [gate; up], y is [m, n/2]
  kAdd = 2,      // y += acc; and, if x_out is set, what the next product reads (see below)
};

struct DecodeLinearProblem {
  int32_t m = 0, n = 0, k = 0;  // m: recorded rows; rows past the live ones may hold anything
  const void* w = nullptr;      // [n, k] bf16
  const void* x = nullptr;      // [m, k] bf16
  void* y = nullptr;            // [m, n] ([m, n/2] for kSiluMul), bf16, or f32 if output says so
  const void* bias = nullptr;   // [n] bf16 or null
  DecodeEpilogue epilogue = DecodeEpilogue::kStore;
  Element output = Element::kBF16;  // kF32: kStore only (logits)

  // RMS norm of the input, applied to the output: scale[m] = 1 / sqrt(sum(sumsq[m, :]) / k + eps).
  // Null: scale 1. The norm's weight is already multiplied into x.
  const float* sumsq = nullptr;  // [m, num_sumsq]: partial sums of squares of the un-normed row
  int32_t num_sumsq = 0;
  float eps = 0.0F;

  // kAdd only, all or none: what the next product's `x` and `sumsq` are.
  const void* norm_weight = nullptr;  // [n] bf16
  void* x_out = nullptr;              // [m, n] bf16: y * norm_weight
  float* sumsq_out = nullptr;         // [m, plan's num_sumsq_out]: partial sums of y * y
};

// A checked, launchable product. Trivially copyable; holds no resources. Opaque to callers.
struct DecodeLinearPlan {
  alignas(64) unsigned char storage[1024];
  int32_t num_sumsq_out = 0;  // for kAdd with x_out; at most kDecodeLinearMaxSumsq
};
inline constexpr int32_t kDecodeLinearMaxSumsq = 512;

// Candidate tunings of a shape on the current device, for choosing by timing. `variant` counts from
// 0; variant 0 is the default. Which variants there are depends on n, k, epilogue and m. 0 if the
// shape is not served or there is no device.
int32_t decode_linear_num_variants(const DecodeLinearProblem& problem);

// A number that says how a variant cuts its sums: variants with equal numbers give a row the same
// bits whatever m is, where n, k, epilogue and inputs are equal. Variant 0's is the same for every
// m. -1 if there is no such variant.
int32_t decode_linear_bits(const DecodeLinearProblem& problem, int32_t variant);

// Whether the shape is served at all: m in 1..64; n a multiple of 8 (16 for kSiluMul); k of 64;
// pointers aligned to 16 bytes.
bool decode_linear_serves(const DecodeLinearProblem& problem);

// Checks and encodes tensor maps, for the current device. Enqueues nothing.
// Errors: the vendor's invalid value or not supported.
LaunchError decode_linear_plan(const DecodeLinearProblem& problem, int32_t variant,
                               DecodeLinearPlan* plan);

LaunchError decode_linear_run(const DecodeLinearPlan& plan, const Launch& launch);

}  // namespace encore::gpu
