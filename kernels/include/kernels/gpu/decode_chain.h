// All products of a decode step between two attentions, as one kernel on Hopper:
//
//   hidden += attended * o^T
//   act     = silu(norm(hidden) * gate^T) * (norm(hidden) * up^T)
//   hidden += act * down^T
//   qkv     = norm(hidden) * qkv_weight^T + qkv_bias      (the next layer's; optional)
//
// bf16 operands, f32 accumulation. The same thread blocks stay for all of it and go on reading the
// next product's weights while its input is made, so that memory never idles between products as
// it does between kernels. A row's bits do not depend on the other rows or on how many there are;
// they do depend on the number of multiprocessors.
//
// Weights are read before the kernel ahead in the stream has finished, so none may write them.
//
// Thread blocks wait for one another. One chain at a time may run on a device, and whatever else
// runs beside it must end without waiting for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

inline constexpr int32_t kDecodeChainMaxRows = 64;
// How many rows of hidden a partial sum of squares covers.
inline constexpr int32_t kDecodeChainSumsqRows = 64;

struct DecodeChainProblem {
  int32_t m = 0;  // recorded rows; rows past the live ones may hold anything
  int32_t hidden_size = 0, q_size = 0, inter_size = 0;
  int32_t qkv_size = 0;  // 0: the chain ends with hidden

  const void* o = nullptr;           // [hidden_size, q_size] bf16
  const void* gate_up = nullptr;     // [gate; up]: [2 * inter_size, hidden_size] bf16
  const void* down = nullptr;        // [hidden_size, inter_size] bf16
  const void* qkv_weight = nullptr;  // [qkv_size, hidden_size] bf16
  const void* qkv_bias = nullptr;    // [qkv_size] bf16 or null
  const void* mlp_norm = nullptr;    // [hidden_size] bf16: RMS norm before gate_up
  const void* next_norm = nullptr;   // [hidden_size] bf16: RMS norm before qkv, or before the head
  float eps = 0.0F;                  // of both norms

  const void* attended = nullptr;  // [m, q_size] bf16
  void* hidden = nullptr;          // [m, hidden_size] bf16, in and out
  void* qkv = nullptr;             // [m, qkv_size] bf16, out
  // Out: `x` and `sumsq` of a decode_linear() that reads norm(hidden).
  void* normed = nullptr;  // [m, hidden_size] bf16: hidden * next_norm
  float* sumsq = nullptr;  // [m, hidden_size / kDecodeChainSumsqRows]: partial sums of hidden^2

  // decode_chain_scratch_bytes(), 16-byte aligned, zeroed once before the first run and then left
  // to the chain. Chains of other m and other layers may share it if their sizes are equal.
  void* scratch = nullptr;
};

// A checked, launchable chain. Trivially copyable; holds no resources. Opaque to callers.
struct DecodeChainPlan {
  alignas(64) unsigned char storage[2048];
};

// For the current device and any m. 0 if there is no device. Reads the sizes only.
size_t decode_chain_scratch_bytes(const DecodeChainProblem& problem);

// Whether the problem is served at all: m in 1..64; hidden_size, q_size and inter_size multiples of
// 128, qkv_size of 64; pointers aligned to 16 bytes.
bool decode_chain_serves(const DecodeChainProblem& problem);

// Tunings for choosing by timing, best known first. They differ in how much shared memory a
// multiprocessor has left for the kernel ahead while the chain already reads weights; results are
// the same.
inline constexpr int32_t kDecodeChainVariants = 2;

// Checks and encodes tensor maps, for the current device. Enqueues nothing.
// Errors: the vendor's invalid value or not supported.
LaunchError decode_chain_plan(const DecodeChainProblem& problem, int32_t variant,
                              DecodeChainPlan* plan);

LaunchError decode_chain_run(const DecodeChainPlan& plan, const Launch& launch);

}  // namespace encore::gpu
