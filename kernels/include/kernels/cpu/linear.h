// y = x * transpose(W) (+ bias), with an epilogue: the matrix product of every layer.
//
// The arithmetic, which the plain C++ level states and the others follow:
//
// Quantised weights. Each 32 consecutive inputs of a row of x become int16 codes:
//     scale = max|x| / 32767,  code = nearest_even(x * (32767 / max|x|)),
//     scaled_sum = scale * float(sum(code))                               the sum is exact
// (all zero if max|x| < 1e-30; an infinity or NaN makes its row's results NaN or infinite, no other
// row's). For each output, over the groups g of the weight in order:
//     dot = sum over the group of (weight code - zero) * code             exact, int32
//     acc = fma(float(dot), weight scale[g] * scale, acc)                 float: nearest even
//     acc = fma(weight min[g], scaled_sum, acc)                           formats with a min
// Weight codes are under 2^8 and a group is 2^5 inputs, so no partial sum passes 2^28. Codes of 8
// bits would cost half the multiplications, but round x more coarsely than most weight formats
// round the weights: they change what a model says.
//
// Float weights. F32 and F16 use x as it is; BF16 rounds x to bf16 (nearest even). The inputs are
// cut into chunks of 1024. Within a chunk, lane l of 16 accumulates inputs k = l (mod 16) by fma in
// order (BF16 with AVX512_BF16: inputs 2l and 2l + 1 of each 32, by the instruction's own
// rounding); lanes are added as a tree (l + 8, then + 4, + 2, + 1); chunk sums are added in order.
//
// Then y = acc + bias, and the epilogue. The same order holds whatever the number of rows, the
// row's place, and the number of threads: y[row, col] has the same bits always. Levels agree bit
// for bit too, except for BF16 on levels with AVX512_BF16 or AMX_BF16, which have their own
// rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

enum class Epilogue : int32_t {
  kStore,    // y = v
  kAdd,      // y = y + v
  kSiluMul,  // two parts of equal n, gate and up: y = gate / (1 + exp(-gate)) * up
};

// One weight matrix of a fused product.
struct LinearPart {
  PackedWeight weight;
  const float* bias = nullptr;  // [n], or null
  int64_t y_column = 0;         // first column of y that this part writes; ignored for kSiluMul
};

inline constexpr int32_t kMaxLinearParts = 3;

// All pointers are borrowed. Rows at or after *num_rows are neither read nor written.
struct LinearArgs {
  const float* x = nullptr;  // [max_rows, k], rows x_stride elements apart
  int64_t x_stride = 0;
  const int32_t* num_rows = nullptr;  // rows in use, read when called; clamped to 0 .. max_rows
  int32_t max_rows = 0;
  int32_t num_parts = 1;
  std::array<LinearPart, kMaxLinearParts> parts;  // all with the same k
  float* y = nullptr;  // rows y_stride elements apart; must not overlap x
  int64_t y_stride = 0;
  Epilogue epilogue = Epilogue::kStore;
  void* workspace = nullptr;  // linear_workspace_bytes, 64-byte aligned, shared by the team
  IsaLevel level = IsaLevel::kGeneric;
};

// Bytes that `workspace` needs for weights of `types`, and the bytes of each worker's own scratch
// that let a call of up to four rows run without a barrier (with less it takes one; no other
// effect).
size_t linear_workspace_bytes(std::span<const WeightType> types, int32_t max_rows, int64_t k);
size_t linear_scratch_bytes(std::span<const WeightType> types, int64_t k);

// Computes y. Called by every worker of a team with equal arguments. The caller puts a barrier
// between this and whatever wrote x, reads y, or uses the workspace.
// REQUIRES: the processor has `level`.
void linear(const LinearArgs& args, const Worker& worker);

}  // namespace encore::kernels
