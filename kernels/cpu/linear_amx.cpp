// The AMX level. Quantised weights stay with AVX-512 VNNI: tiles multiply int8 only, activations
// are int16, and scaling every 32 inputs alone costs about what an int8 tile saves. BF16 weights
// use AMX-BF16, for any number of rows: the instruction's own order of additions (inputs 2i and 2i
// + 1 in order of i, within a chunk) is unlike AVX512_BF16's lanes, and a row must not depend on
// how many others there are.
//
// A tile of 16 rows of w (outputs) by 32 inputs is the first operand, and 16 rows of x, two inputs
// of each side by side, the second: the result holds outputs by rows. The converted x is therefore
// stored, for each 16 rows, as [pair of inputs][row][2].
#include <immintrin.h>

#include "linear_epilogue.h"

namespace encore::kernels {
namespace {

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

// g++ 12's tile intrinsics do not tell the compiler that they read memory.
inline void before_tile_load() { __asm__ volatile("" ::: "memory"); }

// Tiles are configured for this thread while one of these lives.
class TileSession {
 public:
  explicit TileSession(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" ::"m"(config)); }
  ~TileSession() { __asm__ volatile("tilerelease"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

constexpr int kOutputs = 16;
constexpr int64_t kStep = 32;       // inputs of a tile
constexpr int kBlockRows = 16;      // rows of x of a tile
constexpr int64_t kPairBytes = 64;  // a pair of inputs of each of those rows
constexpr int kBlocks = 4;          // tiles of sums at once
constexpr int64_t kSumRows = 256;   // rows whose sums are kept while the chunks pass
constexpr int64_t kAhead = 512;     // inputs of w to fetch ahead

inline int64_t padded_k(int64_t k) { return (k + kStep - 1) / kStep * kStep; }

// Bytes of one block of rows.
inline int64_t block_stride(int64_t k) { return padded_k(k) * 2 * kBlockRows; }

uint32_t round_bf16(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return (nan ? bits | 0x400000U : bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
}

void round_row(const float* x, int64_t k, std::byte* out) {
  for (int64_t i = 0; i < padded_k(k); i += 2) {
    const uint32_t low = i < k ? round_bf16(x[i]) : 0;
    const uint32_t high = i + 1 < k ? round_bf16(x[i + 1]) : 0;
    const uint32_t pair = low | (high << 16);
    __builtin_memcpy(out + i / 2 * kPairBytes, &pair, sizeof(pair));
  }
}

// Tiles: 0 .. 3 sums, 4 w, 5 .. 7 x.
TileConfig prefill_config() {
  TileConfig config;
  for (int tile = 0; tile < kBlocks; ++tile) config.set(tile, kOutputs, 64);
  config.set(4, kOutputs, 64);
  for (int tile = 5; tile < 8; ++tile) config.set(tile, kBlockRows, 64);
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

inline void multiply_step(int block, const std::byte* x) {
  switch (block) {
    case 0:
      _tile_loadd(5, x, kPairBytes);
      _tile_dpbf16ps(0, 4, 5);
      return;
    case 1:
      _tile_loadd(6, x, kPairBytes);
      _tile_dpbf16ps(1, 4, 6);
      return;
    case 2:
      _tile_loadd(7, x, kPairBytes);
      _tile_dpbf16ps(2, 4, 7);
      return;
    default:
      _tile_loadd(5, x, kPairBytes);
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
                     int64_t at, Sums& sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  before_tile_load();
  for (int64_t s = 0; s < steps; ++s) {
    _tile_loadd(4, tiles[s], 64);
#pragma GCC unroll 4
    for (int b = 0; b < kCount; ++b) {
      multiply_step(b, x + b * x_block + s * kBlockRows * kPairBytes);
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < kCount; ++b) {
    alignas(64) float chunk[kOutputs][kBlockRows];
    store_tile(b, chunk);
    for (int c = 0; c < kOutputs; ++c) {
      float* sum = &sums[c][at + b * kBlockRows];
      for (int r = 0; r < kBlockRows; ++r) sum[r] += chunk[c][r];
    }
  }
}

void multiply_rows(const WeightTiles& tiles, int64_t steps, const std::byte* x, int64_t x_block,
                   int64_t blocks, Sums& sums) {
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    const std::byte* first = x + b * x_block;
    const int64_t at = b * kBlockRows;
    switch (smaller(kBlocks, blocks - b)) {
      case 1:
        multiply_blocks<1>(tiles, steps, first, x_block, at, sums);
        break;
      case 2:
        multiply_blocks<2>(tiles, steps, first, x_block, at, sums);
        break;
      case 3:
        multiply_blocks<3>(tiles, steps, first, x_block, at, sums);
        break;
      default:
        multiply_blocks<4>(tiles, steps, first, x_block, at, sums);
        break;
    }
  }
}

void finish_outputs(const ColumnTask& task, int64_t column, int64_t row_begin, int64_t row_end,
                    const Sums& sums) {
  const int64_t count = smaller(kOutputs, task.n - column);
  for (int64_t row = row_begin; row < row_end; ++row) {
    float values[kOutputs];
    for (int c = 0; c < kOutputs; ++c) values[c] = sums[c][row - row_begin];
    finish_row(task, row, column, count, values);
  }
}

// 16 outputs from `column` on, rows [row_begin, row_end), at most kSumRows. row_begin is a multiple
// of 16.
void run_outputs(const ColumnTask& task, int64_t column, int64_t row_begin, int64_t row_end) {
  alignas(64) WeightTiles tiles;
  alignas(64) Sums sums;
  const int64_t x_block = block_stride(task.k);
  const int64_t blocks = (row_end - row_begin + kBlockRows - 1) / kBlockRows;
  for (auto& row : sums) __builtin_memset(row, 0, static_cast<size_t>(blocks) * 64);
  const std::byte* x = task.activations + row_begin / kBlockRows * x_block;
  for (int64_t k = 0; k < task.k; k += kFloatChunk) {
    const int64_t end = smaller(task.k, k + kFloatChunk);
    gather_weights(task, column, k, end, tiles);
    multiply_rows(tiles, padded_k(end - k) / kStep, x + k / 2 * kPairBytes, x_block, blocks, sums);
  }
  finish_outputs(task, column, row_begin, row_end, sums);
}

// One block of rows, bound by memory: w goes from where it lies into tiles, 64 outputs at a time,
// so that four products are under way at once.
class DecodeOutputs {
 public:
  DecodeOutputs(const ColumnTask& task, int64_t column)
      : task_(task),
        column_(column),
        x_(task.activations + task.row_begin / kBlockRows * block_stride(task.k)) {}

  void run() {
    for (int64_t k = 0; k < task_.k; k += kFloatChunk) {
      run_chunk(k, smaller(task_.k, k + kFloatChunk));
    }
    for (int b = 0; b < kBlocks; ++b) {
      if (column_ + b * kOutputs >= task_.col_end) break;
      for (int64_t row = task_.row_begin; row < task_.row_end; ++row) {
        float values[kOutputs];
        for (int c = 0; c < kOutputs; ++c) values[c] = sums_[b][c][row - task_.row_begin];
        const int64_t column = column_ + b * kOutputs;
        finish_row(task_, row, column, smaller(kOutputs, task_.col_end - column), values);
      }
    }
  }

 private:
  struct Source {
    const void* data;
    int64_t stride;
  };

  // The tile of 16 outputs from `column` on and 32 inputs from k on: in place, or if some do not
  // exist, a copy with zeros there.
  Source tile(int block, int64_t k) {
    const int64_t column = column_ + block * kOutputs;
    const auto* w = reinterpret_cast<const uint16_t*>(task_.weights) + column * task_.k + k;
    if (column + kOutputs <= task_.n && k + kStep <= task_.k) {
      // Further along the row, or past its end the row that takes its place.
      const bool inside = k + kAhead < task_.k;
      const int64_t ahead = kAhead + (inside ? 0 : (kBlocks * kOutputs - 1) * task_.k);
      for (int64_t c = 0; c < kOutputs; ++c) {
        _mm_prefetch(reinterpret_cast<const char*>(w + c * task_.k + ahead), _MM_HINT_T0);
      }
      return {w, 2 * task_.k};
    }
    const int64_t left = smaller(kStep, task_.k - k);
    const auto mask = static_cast<__mmask32>((uint64_t{1} << left) - 1);
    for (int64_t c = 0; c < kOutputs; ++c) {
      const bool exists = column + c < task_.n;
      const __m512i values =
          exists ? _mm512_maskz_loadu_epi16(mask, w + c * task_.k) : _mm512_setzero_si512();
      _mm512_store_si512(copies_[block][c], values);
    }
    before_tile_load();
    return {copies_[block], 64};
  }

  void run_chunk(int64_t begin, int64_t end) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    before_tile_load();
    for (int64_t k = begin; k < end; k += kStep) {
      const std::byte* x = x_ + k / 2 * kPairBytes;
      _tile_loadd(5, x, kPairBytes);
      const Source w0 = tile(0, k);
      _tile_loadd(4, w0.data, w0.stride);
      _tile_dpbf16ps(0, 4, 5);
      const Source w1 = tile(1, k);
      _tile_loadd(6, w1.data, w1.stride);
      _tile_dpbf16ps(1, 6, 5);
      const Source w2 = tile(2, k);
      _tile_loadd(7, w2.data, w2.stride);
      _tile_dpbf16ps(2, 7, 5);
      const Source w3 = tile(3, k);
      _tile_loadd(4, w3.data, w3.stride);
      _tile_dpbf16ps(3, 4, 5);
    }
    for (int b = 0; b < kBlocks; ++b) {
      alignas(64) float chunk[kOutputs][kBlockRows];
      store_tile(b, chunk);
      for (int c = 0; c < kOutputs; ++c) {
        for (int r = 0; r < kBlockRows; ++r) sums_[b][c][r] += chunk[c][r];
      }
    }
  }

  const ColumnTask& task_;
  const int64_t column_;
  const std::byte* const x_;
  alignas(64) uint16_t copies_[kBlocks][kOutputs][kStep];
  float sums_[kBlocks][kOutputs][kBlockRows] = {};
};

void run_decode(const ColumnTask& task) {
  TileConfig config;
  for (int t = 0; t < kBlocks; ++t) config.set(t, kOutputs, 64);
  config.set(4, kOutputs, 64);
  config.set(5, kBlockRows, 64);
  config.set(6, kOutputs, 64);
  config.set(7, kOutputs, 64);
  const TileSession session(config);
  for (int64_t column = task.col_begin; column < task.col_end; column += kBlocks * kOutputs) {
    DecodeOutputs(task, column).run();
  }
}

void round_rows(const RowsTask& task) {
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    std::byte* block = task.out + row / kBlockRows * block_stride(task.k);
    round_row(task.x + row * task.x_stride, task.k, block + row % kBlockRows * 4);
  }
}

void bf16_columns(const ColumnTask& task) {
  if (task.row_end - task.row_begin <= kBlockRows) return run_decode(task);
  const TileConfig config = prefill_config();
  const TileSession session(config);
  for (int64_t row = task.row_begin; row < task.row_end; row += kSumRows) {
    const int64_t row_end = smaller(task.row_end, row + kSumRows);
    for (int64_t column = task.col_begin; column < task.col_end; column += kOutputs) {
      run_outputs(task, column, row, row_end);
    }
  }
}

void float_columns(const ColumnTask& task) {
  if (task.type == WeightType::kBF16) return bf16_columns(task);
  float_columns_avx512(task);
}

}  // namespace

const LinearKernels& linear_kernels_amx() {
  static const LinearKernels kernels = {linear_kernels_avx512().quantize_rows, round_rows, 16,
                                        quantised_columns_avx512, float_columns};
  return kernels;
}

}  // namespace encore::kernels
