// Elementwise kernels: SiLU times gate, and add.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/worker.h"

namespace encore::kernels {

// y = silu(gate) * up, silu(v) = v / (1 + exp(-v)).
struct SiluMulArgs {
  const int32_t* num_rows;  // [1] live rows; rows from there on are not touched
  const float* gate;        // [rows, columns]
  int64_t gate_stride;      // elements from row to row
  const float* up;          // [rows, columns]
  int64_t up_stride;
  float* y;  // [rows, columns]; may be gate or up
  int64_t y_stride;
  int32_t columns;
};

// y = a + b.
struct AddArgs {
  const int32_t* num_rows;  // [1] live rows; rows from there on are not touched
  const float* a;           // [rows, columns]
  int64_t a_stride;
  const float* b;  // [rows, columns]
  int64_t b_stride;
  float* y;  // [rows, columns]; may be a or b
  int64_t y_stride;
  int32_t columns;
};

// Both split by (row, column range), need no scratch and do not synchronise at their end.
// An element's bits depend on its operands alone.
using SiluMulKernel = void (*)(const SiluMulArgs&, const Worker&);
using AddKernel = void (*)(const AddArgs&, const Worker&);

// The best kernel at or below `level`.
SiluMulKernel silu_mul_kernel(IsaLevel level);
AddKernel add_kernel(IsaLevel level);

}  // namespace encore::kernels
