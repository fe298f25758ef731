// Matrix products with many rows of x, in square blocks of y.
//
// A thread block computes kBlock x kBlock elements, in steps of 32 of k: rows of w and x go through
// registers into one of two buffers of shared memory while the warps multiply from the other. The
// product is transposed, y^T = w x^T, so that a lane's elements of a row of y lie side by side.
// Every kernel sums over k in the same order, whatever its block.
#include "kernels/gpu/device_traits.h"
#include "launch.cuh"
#include "linear_internal.h"
#include "matrix_tile.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kStep = 32;           // of k
constexpr int kPieces = kStep / 8;  // of 16 bytes, in a row
constexpr int kLargeBlock = 128;
constexpr int kSmallBlock = 64;

// Where a piece of a row lies, so that eight rows' same piece falls into eight groups of banks.
__device__ inline int place_of(int row, int piece) { return row * kPieces + (piece ^ row / 2 % 4); }

template <MatrixUnit kUnit, int W, int kBlock>
class LinearBlock {
 public:
  using Tile = MatrixTile<kUnit, W, bf16>;
  static constexpr int kRows = 2 * kBlock;  // of a buffer: w's, then x's
  using Buffer = uint4[kRows * kPieces];

  __device__ LinearBlock(const LinearArgs& args, Buffer* buffers)
      : args_(args),
        buffers_(buffers),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % W),
        first_column_(static_cast<int>(blockIdx.y) * kBlock),
        first_row_(static_cast<int>(blockIdx.x) * kBlock) {
    constexpr int kAcross = kBlock / kWarpColumns;
    const int warp = thread_ / W;
    warp_column_ = warp % kAcross * kWarpColumns;
    warp_row_ = warp / kAcross * kWarpRows;
  }

  __device__ __forceinline__ void run() {
    const int steps = (args_.k + kStep - 1) / kStep;
    fetch(0);
    put(0);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
      const bool more = step + 1 < steps;
      if (more) fetch((step + 1) * kStep);
      multiply(step % 2);
      if (more) put(1 - step % 2);
      __syncthreads();
    }
    store();
  }

 private:
  // Each warp's part: rows of x (of y) and rows of w (columns of y).
  static constexpr int kWarpRows = kBlock / 2;
  static constexpr int kWarpColumns = kBlock / (kThreads / W / 2);
  static constexpr int kTilesDown = kWarpRows / 16;
  static constexpr int kTilesAcross = kWarpColumns / 16;
  static constexpr int kCopies = kRows * kPieces / kThreads;

  // A thread's pieces of the next step, zeros where w or x has none.
  __device__ __forceinline__ void fetch(int k) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int index = thread_ + i * kThreads;
      const int row = index / kPieces;
      const int at = k + index % kPieces * 8;
      const bool of_w = row < kBlock;
      const int source = of_w ? first_column_ + row : first_row_ + row - kBlock;
      const bool exists = source < (of_w ? args_.n : args_.m) && at < args_.k;
      const bf16* const from = (of_w ? args_.w : args_.x) + int64_t{source} * args_.k + at;
      fetched_[i] = exists ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
    }
  }
  __device__ __forceinline__ void put(int buffer) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int index = thread_ + i * kThreads;
      buffers_[buffer][place_of(index / kPieces, index % kPieces)] = fetched_[i];
    }
  }

  __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      const auto tile_at = [&](int first) {
        return [=, this](int row, int column) {
          const uint4* const piece = &buffers_[buffer][place_of(first + row, (k + column) / 8)];
          return reinterpret_cast<const bf16*>(piece) + column % 8;
        };
      };
      typename Tile::B b[kTilesDown];
#pragma unroll
      for (int j = 0; j < kTilesDown; ++j)
        b[j] = Tile::load_b(lane_, tile_at(kBlock + warp_row_ + j * 16));
#pragma unroll
      for (int i = 0; i < kTilesAcross; ++i) {
        const auto a = Tile::load_a(lane_, tile_at(warp_column_ + i * 16));
#pragma unroll
        for (int j = 0; j < kTilesDown; ++j) Tile::multiply(sums_[i][j], a, b[j]);
      }
    }
  }

  __device__ __forceinline__ void store() {
#pragma unroll
    for (int i = 0; i < kTilesAcross; ++i) {
#pragma unroll
      for (int j = 0; j < kTilesDown; ++j) {
        const int column = first_column_ + warp_column_ + i * 16;
        const int row = first_row_ + warp_row_ + j * 16;
        if (args_.f32_output) {
          store_each(sums_[i][j], row, column);
        } else {
          add_terms(sums_[i][j], row, column);
          Tile::store_b(lane_, Tile::as_b(lane_, sums_[i][j]), [&](int r, int c) {
            const bool exists = row + r < args_.m && column + c < args_.n;
            return exists ? static_cast<bf16*>(args_.y) + at(row + r, column + c) : nullptr;
          });
        }
      }
    }
  }
  __device__ int64_t at(int row, int column) const { return int64_t{row} * args_.n + column; }
  // f(sum, row, column) for those of the lane's sums that y has.
  template <typename F>
  __device__ __forceinline__ void for_each(typename Tile::C& sums, int row, int column, F f) {
#pragma unroll
    for (int v = 0; v < 256 / W; ++v) {
      const int r = row + Tile::column(lane_, Tile::slot(v));
      const int c = column + Tile::row(lane_, v);
      if (r < args_.m && c < args_.n) f(sums.values[v], r, c);
    }
  }
  __device__ __forceinline__ void store_each(typename Tile::C& sums, int row, int column) {
    for_each(sums, row, column, [&](float sum, int r, int c) {
      float* const to = static_cast<float*>(args_.y) + at(r, c);
      *to = args_.accumulate ? *to + sum : sum;
    });
  }
  __device__ __forceinline__ void add_terms(typename Tile::C& sums, int row, int column) {
    if (args_.bias != nullptr) {
      for_each(sums, row, column, [&](float& sum, int, int c) { sum += to_float(args_.bias[c]); });
    }
    if (args_.accumulate) {
      for_each(sums, row, column, [&](float& sum, int r, int c) {
        sum += to_float(static_cast<const bf16*>(args_.y)[at(r, c)]);
      });
    }
  }

  const LinearArgs& args_;
  Buffer* const buffers_;
  const int thread_;
  const int lane_;
  const int first_column_;  // of the thread block
  const int first_row_;
  int warp_column_;  // of the warp, in the block
  int warp_row_;
  uint4 fetched_[kCopies];
  typename Tile::C sums_[kTilesAcross][kTilesDown];
};

// Grid: x blocks of rows, y blocks of columns, so that blocks that run together share rows of w.
template <MatrixUnit kUnit, int W, int kBlock>
__global__ void __launch_bounds__(kThreads) linear_tiles_kernel(const LinearArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  if constexpr (!has_matrix_unit<kUnit, W>()) {
    refuse_launch<W>();
  } else {
    using Block = LinearBlock<kUnit, W, kBlock>;
    __shared__ typename Block::Buffer buffers[2];
    wait_for_previous_kernel();
    Block(args, buffers).run();
    release_next_kernel();
  }
}

template <MatrixUnit kUnit, int W, int kBlock>
LaunchError launch_block(const LinearArgs& args, const Launch& launch) {
  const dim3 grid(static_cast<unsigned>((args.m + kBlock - 1) / kBlock),
                  static_cast<unsigned>((args.n + kBlock - 1) / kBlock));
  if (grid.y > 65535) return gpuErrorInvalidValue;
  return launch_kernel(linear_tiles_kernel<kUnit, W, kBlock>, grid, kThreads, 0, launch, args);
}

// Large blocks read less; small ones where large ones would leave processors idle. Plain lanes need
// more registers than a large block leaves them.
template <MatrixUnit kUnit, int W>
LaunchError launch_unit(const LinearArgs& args, const DeviceTraits& device, const Launch& launch) {
  [[maybe_unused]] const int64_t large = int64_t{(args.m + kLargeBlock - 1) / kLargeBlock} *
                                         ((args.n + kLargeBlock - 1) / kLargeBlock);
  if constexpr (kUnit != MatrixUnit::kNone) {
    if (large >= device.num_processors) return launch_block<kUnit, W, kLargeBlock>(args, launch);
  }
  return launch_block<kUnit, W, kSmallBlock>(args, launch);
}

}  // namespace

LaunchError launch_linear_tiles(const LinearArgs& args, const DeviceTraits& device,
                                const Launch& launch) {
  if (device.matrix_unit == MatrixUnit::kNone) {
    return with_lanes(
        launch, [&]<int W>() { return launch_unit<MatrixUnit::kNone, W>(args, device, launch); });
  }
#if !defined(ENCORE_GPU_HIP)
  if (device.matrix_unit == MatrixUnit::kMma && launch.lanes == 32)
    return launch_unit<MatrixUnit::kMma, 32>(args, device, launch);
#endif
#if !defined(ENCORE_GPU_CUDA)
  if (device.matrix_unit == MatrixUnit::kMfma && launch.lanes == 64)
    return launch_unit<MatrixUnit::kMfma, 64>(args, device, launch);
  if (device.matrix_unit == MatrixUnit::kWmma && launch.lanes == 32)
    return launch_unit<MatrixUnit::kWmma, 32>(args, device, launch);
#endif
  return gpuErrorInvalidValue;
}

}  // namespace encore::gpu
