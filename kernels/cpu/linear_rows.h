// Float weights, row by row: the loops, for a `Kernel` of some level. Private to each including
// file.
//
// Kernel: Weight and Activation (stored types), kTileRows, kTileColumns, kDecodeColumns, and
//   template <int R, int C> static void run(const ChunkTile<Kernel, R, C>&, begin, end)
// which adds the sums of inputs [begin, end) to the tile's sums in the order that linear.h states.
#pragma once

#include <cstdint>

#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

// Columns whose sums are kept while the chunks of k pass, and rows likewise: 32 KiB of sums.
inline constexpr int64_t kSumColumns = 32;
inline constexpr int64_t kSumRows = 256;

// R rows of x by C rows of w.
template <typename Kernel, int R, int C>
struct ChunkTile {
  const typename Kernel::Weight* w[C];
  const typename Kernel::Activation* x[R];
  float* sums;       // [R][kSumColumns]
  int64_t prefetch;  // elements ahead in w of what the next tile will read; 0: do not fetch it
};

template <typename Kernel, int R, int C>
void run_chunk_tile(const ColumnTask& task, int64_t row, int64_t column, int64_t begin, int64_t end,
                    bool prefetch, float* sums) {
  ChunkTile<Kernel, R, C> tile;
  const auto* w = reinterpret_cast<const typename Kernel::Weight*>(task.weights);
  for (int c = 0; c < C; ++c) tile.w[c] = w + smaller(column + c, task.n - 1) * task.k;
  for (int r = 0; r < R; ++r) {
    tile.x[r] = reinterpret_cast<const typename Kernel::Activation*>(
        task.activations + (row + r) * task.activation_stride);
  }
  tile.sums = sums;
  tile.prefetch = prefetch ? C * task.k : 0;
  Kernel::run(tile, begin, end);
}

// A tile of `rows` rows, 1 .. R.
template <typename Kernel, int R>
void run_chunk_rows(const ColumnTask& task, int64_t row, int64_t rows, int64_t column,
                    int64_t begin, int64_t end, bool prefetch, float* sums) {
  if constexpr (R > 1) {
    if (rows < R)
      return run_chunk_rows<Kernel, R - 1>(task, row, rows, column, begin, end, prefetch, sums);
  }
  run_chunk_tile<Kernel, R, Kernel::kTileColumns>(task, row, column, begin, end, prefetch, sums);
}

// One or two rows, bound by memory: whole rows of w, kDecodeColumns streams.
template <typename Kernel, int R>
void run_decode(const ColumnTask& task) {
  constexpr int kColumns = Kernel::kDecodeColumns;
  for (int64_t column = task.col_begin; column < task.col_end; column += kColumns) {
    float sums[R][kSumColumns] = {};
    for (int64_t k = 0; k < task.k; k += kFloatChunk) {
      run_chunk_tile<Kernel, R, kColumns>(task, task.row_begin, column, k,
                                          smaller(task.k, k + kFloatChunk), true, sums[0]);
    }
    const int64_t count = smaller(kColumns, task.col_end - column);
    for (int r = 0; r < R; ++r) finish_row(task, task.row_begin + r, column, count, sums[r]);
  }
}

// Many rows: for each chunk of k, a tile's columns stay in the first cache while the rows pass.
template <typename Kernel>
void run_prefill(const ColumnTask& task, int64_t row_begin, int64_t row_end, int64_t column) {
  alignas(64) float sums[kSumRows * kSumColumns];
  const int64_t rows = row_end - row_begin;
  const int64_t columns = smaller(kSumColumns, task.col_end - column);
  const int64_t tiles = (rows + Kernel::kTileRows - 1) / Kernel::kTileRows;
  __builtin_memset(sums, 0, static_cast<size_t>(rows * kSumColumns) * sizeof(float));
  for (int64_t k = 0; k < task.k; k += kFloatChunk) {
    const int64_t k_end = smaller(task.k, k + kFloatChunk);
    for (int64_t c = 0; c < columns; c += Kernel::kTileColumns) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = rows * t / tiles;
        run_chunk_rows<Kernel, Kernel::kTileRows>(task, row_begin + row,
                                                  rows * (t + 1) / tiles - row, column + c, k,
                                                  k_end, t == 0, sums + row * kSumColumns + c);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    finish_row(task, row_begin + r, column, columns, sums + r * kSumColumns);
  }
}

template <typename Kernel>
void run_float_columns(const ColumnTask& task) {
  const int32_t rows = task.row_end - task.row_begin;
  if (rows == 1) return run_decode<Kernel, 1>(task);
  if (rows == 2) return run_decode<Kernel, 2>(task);
  for (int64_t row = task.row_begin; row < task.row_end; row += kSumRows) {
    for (int64_t column = task.col_begin; column < task.col_end; column += kSumColumns) {
      run_prefill<Kernel>(task, row, smaller(task.row_end, row + kSumRows), column);
    }
  }
}

}  // namespace
}  // namespace encore::kernels
