#include "kernels/gpu/norm.h"
#include "launch.cuh"
#include "pack.cuh"
#include "row_norm.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kMaxThreads = 1024;
// Up to these many rows a device holds them all at once, and a row is as fast as its block is wide.
// With more, memory is the limit: narrow blocks, many on a multiprocessor, each with several loads
// under way.
constexpr int kFewRows = 512;
constexpr int kManyRowsPacks = 4;  // of a thread
constexpr int kManyRowsThreads = 512;
static_assert(kRmsNormMaxColumns == 2 * kMaxThreads * 8 &&
              kRmsNormMaxColumns == kManyRowsPacks * kManyRowsThreads * 8);

// One block a row, which it holds in registers: kPacks packs a thread.
template <int W, int kPacks, int kThreads>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(RmsNormArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  __shared__ float partial[kPacks * kThreads / W];
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int packs = args.hidden_size / 8;
  const auto* weight = static_cast<const bf16*>(args.weight);
  const auto* x = static_cast<const bf16*>(args.x) + row * args.x_stride;
  auto* y = static_cast<bf16*>(args.y) + row * args.y_stride;

  // Where rows are few, what can be is read before anything is waited for: constant data, and the
  // row while the count is under way. Where they are many, registers and bandwidth count instead.
  constexpr bool kFew = kPacks < kManyRowsPacks;
  Pack8 weights[kPacks] = {};
  if (kFew) load_packs(weights, weight, packs);
  if (kFew) release_next_kernel();  // a product fills its rings with weights meanwhile
  wait_for_previous_kernel();
  const int32_t live = *args.rows.live;
  if (!kFew && row >= live) return;
  Pack8 values[kPacks] = {};
  load_packs(values, x, packs);
  if (!kFew) release_next_kernel();
  if (row >= live) return;
  const float inverse = inverse_rms<W>(values, packs, args.eps, partial);
  if (!kFew) load_packs(weights, weight, packs);
  store_scaled(y, values, weights, inverse, packs);
}

template <int kPacks, int kThreads>
LaunchError launch_norm(const RmsNormArgs& args, const Launch& launch) {
  const int32_t needed = (args.hidden_size / 8 + kPacks - 1) / kPacks;
  return with_lanes(launch, [&]<int W>() {
    return launch_kernel(rms_norm_kernel<W, kPacks, kThreads>, args.rows.maximum,
                         whole_warps(needed, launch), 0, launch, args);
  });
}

}  // namespace

LaunchError rms_norm(const RmsNormArgs& args, const Launch& launch) {
  const int32_t packs = args.hidden_size / 8;
  if (args.hidden_size <= 0 || args.hidden_size % 8 != 0 || args.hidden_size > kRmsNormMaxColumns ||
      args.x_stride % 8 != 0 || args.y_stride % 8 != 0) {
    return gpuErrorInvalidValue;
  }
  if (args.rows.maximum <= 0) return gpuSuccess;
  if (args.rows.maximum > kFewRows)
    return launch_norm<kManyRowsPacks, kManyRowsThreads>(args, launch);
  if (packs > kMaxThreads) return launch_norm<2, kMaxThreads>(args, launch);
  return launch_norm<1, kMaxThreads>(args, launch);
}

}  // namespace encore::gpu
