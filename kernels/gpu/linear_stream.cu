// Matrix products with few rows of x: bound by the reading of w, which goes through registers once.
//
// A warp takes whole rows of w, kColumns of them (columns of y), 16 bytes a lane and step, the next
// step's under way. Rows of x lie in shared memory, a chunk of k at a time. Each lane sums its
// share of k in ascending order, in f32; then the warp adds up. How many rows or columns a kernel
// takes, and where chunks end, changes no sum.
#include "kernels/gpu/launch.h"
#include "launch.cuh"
#include "linear_internal.h"
#include "pack.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 2048;  // of k; 4 KB a row
constexpr int kManyColumns = 4;

// Rows [0, kRows) of x, from k `first` on, zeros where x has none.
template <int kRows>
__device__ inline void stage_rows(Pack8 (&staged)[kRows][kChunk / 8], const LinearArgs& args,
                                  int first) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    for (int i = static_cast<int>(threadIdx.x); i < kChunk / 8; i += kThreads) {
      const int at = first + i * 8;
      const bool exists = row < args.m && at < args.k;
      staged[row][i] = exists ? load8(args.x + int64_t{row} * args.k + at) : Pack8{};
    }
  }
}

// Element [row, column] of y, from its sum of products.
__device__ inline void store_element(const LinearArgs& args, int row, int column, float sum) {
  const int64_t at = int64_t{row} * args.n + column;
  if (args.bias != nullptr) sum += to_float(args.bias[column]);
  if (args.f32_output) {
    float* const to = static_cast<float*>(args.y) + at;
    *to = args.accumulate ? *to + sum : sum;
  } else {
    bf16* const to = static_cast<bf16*>(args.y) + at;
    *to = to_bf16(args.accumulate ? to_float(*to) + sum : sum);
  }
}

template <int W, int kRows, int kColumns>
__global__ void __launch_bounds__(kThreads) linear_stream_kernel(const LinearArgs args) {
  __shared__ Pack8 staged[kRows][kChunk / 8];
  if (!has_lanes<W>()) return refuse_launch<W>();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % W;
  const int warp = static_cast<int>(threadIdx.x) / W;
  const int column = (static_cast<int>(blockIdx.x) * (kThreads / W) + warp) * kColumns;
  const auto load = [&](Pack8(&packs)[kColumns], int at) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const bool exists = column + j < args.n && at < args.k;
      packs[j] = exists ? load8(args.w + int64_t{column + j} * args.k + at) : Pack8{};
    }
  };

  float sums[kRows][kColumns] = {};
  Pack8 next[kColumns];
  load(next, lane * 8);
  for (int first = 0; first < args.k; first += kChunk) {
    if (first > 0) __syncthreads();
    stage_rows(staged, args, first);
    __syncthreads();
    const int end = min(kChunk, args.k - first);
    for (int step = 0; step < end; step += W * 8) {
      const int at = step + lane * 8;
      float w[kColumns][8];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) unpack(next[j], w[j]);
      load(next, first + at + W * 8);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        float x[8];
        unpack(staged[row][at / 8], x);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[row][j] = fmaf(w[j][i], x[i], sums[row][j]);
        }
      }
    }
  }
  release_next_kernel();

  // Lane i keeps element i of the warp's part of y.
  static_assert(kRows * kColumns <= W);
  float mine = 0.0F;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float sum = warp_sum<W>(sums[row][j]);
      if (lane == row * kColumns + j) mine = sum;
    }
  }
  const int row = lane / kColumns;
  const int own_column = column + lane % kColumns;
  if (row < min(kRows, args.m) && own_column < args.n) store_element(args, row, own_column, mine);
}

template <int W, int kRows>
LaunchError launch_rows(const LinearArgs& args, const DeviceTraits& device, const Launch& launch) {
  constexpr int kWarps = kThreads / W;
  const int blocks = (args.n + kWarps * kManyColumns - 1) / (kWarps * kManyColumns);
  if (blocks >= device.num_processors)
    return launch_kernel(linear_stream_kernel<W, kRows, kManyColumns>, blocks, kThreads, 0, launch,
                         args);
  return launch_kernel(linear_stream_kernel<W, kRows, 1>, (args.n + kWarps - 1) / kWarps, kThreads,
                       0, launch, args);
}

}  // namespace

LaunchError launch_linear_stream(const LinearArgs& args, const DeviceTraits& device,
                                 const Launch& launch) {
  return with_lanes(launch, [&]<int W>() {
    if (args.m == 1) return launch_rows<W, 1>(args, device, launch);
    if (args.m == 2) return launch_rows<W, 2>(args, device, launch);
    if (args.m <= 4) return launch_rows<W, 4>(args, device, launch);
    return launch_rows<W, 8>(args, device, launch);
  });
}

}  // namespace encore::gpu
