// BF16 weights with AMX-BF16, for any number of rows: the instruction's own order of additions
// (inputs 2i and 2i + 1 in order of i, within a chunk) is unlike AVX512_BF16's lanes, and a row
// must not depend on how many others there are.
//
// A tile of 16 rows of w (outputs) by 32 inputs is the first operand, and 16 rows of x, two inputs
// of each side by side, the second: the result holds outputs by rows. The converted x is therefore
// stored, for each 16 rows, as [pair of inputs][row][2]; or 4 rows wide if the call has no more, so
// that a decode step does not read mostly nothing.
#include "linear_amx.h"
#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

constexpr int kOutputs = 16;
constexpr int64_t kStep = 32;      // inputs of a tile
constexpr int kBlockRows = 16;     // rows of x of a tile
constexpr int kBlocks = 4;         // tiles of sums at once
constexpr int64_t kSumRows = 256;  // rows whose sums are kept while the chunks pass
constexpr int64_t kAhead = 512;    // inputs of w to fetch ahead

constexpr int row_width(int32_t rows) { return rows <= 4 ? 4 : kBlockRows; }

inline int64_t padded_k(int64_t k) { return (k + kStep - 1) / kStep * kStep; }

// Bytes of one block of rows.
inline int64_t block_stride(int64_t k, int width) { return padded_k(k) / 2 * 4 * width; }

uint32_t round_bf16(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return (nan ? bits | 0x400000U : bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}

void round_row(const float* x, int64_t k, int width, std::byte* out) {
  for (int64_t i = 0; i < padded_k(k); i += 2) {
    const uint32_t low = i < k ? round_bf16(x[i]) : 0;
    const uint32_t high = i + 1 < k ? round_bf16(x[i + 1]) : 0;
    const uint32_t pair = low | (high << 16);
    __builtin_memcpy(out + i / 2 * 4 * width, &pair, sizeof(pair));
  }
}

// Tiles: 0 .. 3 sums, 4 w, 5 .. 7 x.
TileConfig bf16_config(int width) {
  TileConfig config;
  for (int tile = 0; tile < kBlocks; ++tile) config.set(tile, kOutputs, 4 * width);
  config.set(4, kOutputs, 64);
  for (int tile = 5; tile < 8; ++tile) config.set(tile, kBlockRows, 4 * width);
  return config;
}

using WeightTiles = uint16_t[kFloatChunk / kStep][kOutputs][kStep];
using Sums = float[kOutputs][kSumRows];

// Copies inputs [begin, end) of 16 rows of w from `column` on, zeros where there is nothing.
void gather_weights(const ColumnTask& task, int64_t column, int64_t begin, int64_t end,
                    WeightTiles& tiles) {
  const auto* w = reinterpret_cast<const uint16_t*>(task.weights) + column * task.k;
  for (int64_t k = begin; k < end; k += kStep) {
    const int64_t left = smaller(kStep, end - k);
    const auto mask = static_cast<__mmask32>((uint64_t{1} << left) - 1);
    for (int c = 0; c < kOutputs; ++c) {
      __m512i values = _mm512_setzero_si512();
      if (column + c < task.n) {
        const uint16_t* row = w + c * task.k + k;
        values = _mm512_maskz_loadu_epi16(mask, row);
        _mm_prefetch(reinterpret_cast<const char*>(row + kAhead), _MM_HINT_T0);
      }
      _mm512_store_si512(tiles[(k - begin) / kStep][c], values);
    }
  }
}

inline void multiply_step(int block, const std::byte* x, int64_t x_row_bytes) {
  switch (block) {
    case 0:
      _tile_loadd(5, x, x_row_bytes);
      _tile_dpbf16ps(0, 4, 5);
      return;
    case 1:
      _tile_loadd(6, x, x_row_bytes);
      _tile_dpbf16ps(1, 4, 6);
      return;
    case 2:
      _tile_loadd(7, x, x_row_bytes);
      _tile_dpbf16ps(2, 4, 7);
      return;
    default:
      _tile_loadd(5, x, x_row_bytes);
      _tile_dpbf16ps(3, 4, 5);
      return;
  }
}

inline void store_tile(int block, float (&out)[kOutputs][kBlockRows]) {
  switch (block) {
    case 0:
      _tile_stored(0, out, 64);
      return;
    case 1:
      _tile_stored(1, out, 64);
      return;
    case 2:
      _tile_stored(2, out, 64);
      return;
    default:
      _tile_stored(3, out, 64);
      return;
  }
}

// Adds to the sums of kCount blocks of rows, from row `at` of `sums` on, `steps` tiles of w. `x`:
// the first block's inputs of this chunk.
template <int kCount>
void multiply_blocks(const WeightTiles& tiles, int64_t steps, const std::byte* x, int64_t x_block,
                     int width, int64_t at, Sums& sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const int64_t x_row_bytes = 4 * width;
  before_tile_load();
  for (int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, tiles[s], 64);
#pragma GCC unroll 4
    for (int b = 0; b < kCount; ++b) {
      multiply_step(b, x + b * x_block + s * kBlockRows * x_row_bytes, x_row_bytes);
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < kCount; ++b) {
    alignas(64) float chunk[kOutputs][kBlockRows];
    store_tile(b, chunk);
    for (int c = 0; c < kOutputs; ++c) {
      float* sum = &sums[c][at + b * kBlockRows];
      for (int r = 0; r < width; ++r) sum[r] += chunk[c][r];
    }
  }
}

void multiply_rows(const WeightTiles& tiles, int64_t steps, const std::byte* x, int64_t x_block,
                   int width, int64_t blocks, Sums& sums) {
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    const std::byte* first = x + b * x_block;
    const int64_t at = b * kBlockRows;
    switch (smaller(kBlocks, blocks - b)) {
      case 1:
        multiply_blocks<1>(tiles, steps, first, x_block, width, at, sums);
        break;
      case 2:
        multiply_blocks<2>(tiles, steps, first, x_block, width, at, sums);
        break;
      case 3:
        multiply_blocks<3>(tiles, steps, first, x_block, width, at, sums);
        break;
      default:
        multiply_blocks<4>(tiles, steps, first, x_block, width, at, sums);
        break;
    }
  }
}

// 16 outputs from `column` on, rows [row_begin, row_end), at most kSumRows. row_begin is a multiple
// of 16.
void run_outputs(const ColumnTask& task, int64_t column, int64_t row_begin, int64_t row_end) {
  alignas(64) WeightTiles tiles;
  alignas(64) Sums sums;
  const int width = row_width(task.total_rows);
  const int64_t x_block = block_stride(task.k, width);
  const int64_t blocks = (row_end - row_begin + kBlockRows - 1) / kBlockRows;
  for (auto& row : sums) __builtin_memset(row, 0, static_cast<size_t>(blocks) * 64);
  const std::byte* x = task.activations + row_begin / kBlockRows * x_block;
  for (int64_t k = 0; k < task.k; k += kFloatChunk) {
    const int64_t end = smaller(task.k, k + kFloatChunk);
    gather_weights(task, column, k, end, tiles);
    multiply_rows(tiles, padded_k(end - k) / kStep, x + k / 2 * 4 * width, x_block, width, blocks,
                  sums);
  }
  const int64_t count = smaller(kOutputs, task.n - column);
  for (int64_t row = row_begin; row < row_end; ++row) {
    float values[kOutputs];
    for (int c = 0; c < kOutputs; ++c) values[c] = sums[c][row - row_begin];
    finish_row(task, row, column, count, values);
  }
}

}  // namespace

void round_rows_amx(const RowsTask& task) {
  const int width = row_width(task.total_rows);
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    std::byte* block = task.out + row / kBlockRows * block_stride(task.k, width);
    round_row(task.x + row * task.x_stride, task.k, width, block + row % kBlockRows * 4);
  }
}

void bf16_columns_amx(const ColumnTask& task) {
  const TileConfig config = bf16_config(row_width(task.total_rows));
  const TileSession session(config);
  for (int64_t row = task.row_begin; row < task.row_end; row += kSumRows) {
    const int64_t row_end = smaller(task.row_end, row + kSumRows);
    for (int64_t column = task.col_begin; column < task.col_end; column += kOutputs) {
      run_outputs(task, column, row, row_end);
    }
  }
}

}  // namespace encore::kernels
