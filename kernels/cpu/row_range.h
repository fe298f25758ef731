// How elementwise kernels cut a matrix among the threads of a team.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/worker.h"

namespace encore::kernels {
namespace {  // compiled once for each instruction set: must not be shared between them

// Calls visit(row, first_column, end_column) for this thread's share of rows * columns elements,
// cut into runs that start at multiples of 64 columns.
template <typename Visit>
void for_each_row_range(int64_t rows, int64_t columns, const Worker& worker, Visit visit) {
  constexpr int64_t kRun = 64;
  const int64_t runs_per_row = (columns + kRun - 1) / kRun;
  const auto [begin, end] = share_of(rows * runs_per_row, worker.index, worker.count);
  for (int64_t run = begin; run < end;) {
    const int64_t row = run / runs_per_row;
    const int64_t first = run - row * runs_per_row;
    const int64_t last = std::min(runs_per_row, first + (end - run));
    visit(row, first * kRun, std::min(columns, last * kRun));
    run += last - first;
  }
}

}  // namespace
}  // namespace encore::kernels
