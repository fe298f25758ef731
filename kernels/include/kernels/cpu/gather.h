// Copies chosen rows of a matrix.
#pragma once

#include <cstdint>

#include "kernels/cpu/worker.h"

namespace encore::kernels {

// y[i] = x[rows[i]] for i below *num_rows.
struct GatherRowsArgs {
  const int32_t* num_rows;  // [1] live rows of y; rows from there on are not touched
  const int32_t* rows;      // [*num_rows] row of x
  const float* x;           // [any, columns]
  int64_t x_stride;         // elements from row to row
  float* y;                 // [*num_rows, columns]; must not overlap x
  int64_t y_stride;
  int32_t columns;
};

// Splits by rows. Needs no scratch; does not synchronise at its end.
void gather_rows(const GatherRowsArgs& args, const Worker& worker);

}  // namespace encore::kernels
