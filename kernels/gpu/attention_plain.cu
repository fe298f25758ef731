// Paged attention without matrix instructions: the specification of the other paths, and what
// serves shapes and devices that they do not.
//
// One warp for each row and head of q, prefill and decode alike. It takes W keys at a time, one
// a lane: first each lane scores one key (its row of K is contiguous), then the lanes share out the
// head's dimensions and add up p * v (rows of V are read by all lanes together). Softmax is online,
// in f32.
#include "attention_internal.h"
#include "launch.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kWarps = 4;  // heads of a thread block
constexpr int kMaxHeadDim = 256;
constexpr float kLowest = -1e30F;  // below any score; finite, so that differences are

__device__ inline void store_float(float value, float* to) { *to = value; }
__device__ inline void store_float(float value, bf16* to) { *to = to_bf16(value); }
__device__ inline void store_float(float value, f16* to) { *to = __float2half(value); }

template <typename T>
struct alignas(16) Eight {
  T values[8];
};

struct PlainArgs {
  AttentionInputs inputs;
  const void* q;
  void* y;
  int64_t q_stride, y_stride;
  const std::byte* pages;
  int64_t head_elements, half_elements;  // strides: KV head, from K to V
  int32_t page_size, head_dim, group;
  int32_t num_heads;
  float scale;  // of log 2 units
};

struct Row {
  int first_page;
  int num_keys;  // 0: no request's row
};

// Which request row `row` belongs to: the last one that starts at or before it.
__device__ inline Row find_row(const AttentionInputs& inputs, int row) {
  const int live = *inputs.num_requests;
  if (live <= 0 || row >= inputs.q_start[live]) return {0, 0};
  int low = 0;
  int high = live - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (inputs.q_start[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int after = inputs.q_start[low + 1] - 1 - row;  // the request's rows after this one
  return {inputs.page_start[low], inputs.kv_len[low] - after};
}

template <typename KV>
__device__ inline float dot_row(const float* q, const KV* k, int head_dim) {
  float sum = 0.0F;
  for (int i = 0; i < head_dim; i += 8) {
    const auto eight = *reinterpret_cast<const Eight<KV>*>(k + i);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += q[i + j] * to_float(eight.values[j]);
  }
  return sum;
}

template <int W, typename T, typename KV>
__global__ void __launch_bounds__(kWarps* W) plain_kernel(const PlainArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  constexpr int kMaxDimsPerLane = kMaxHeadDim / W;
  __shared__ float shared_q[kWarps][kMaxHeadDim];
  wait_for_previous_kernel();
  const int warp = threadIdx.x / W;
  const int lane = threadIdx.x % W;
  const int head = blockIdx.y * kWarps + warp;
  const Row row = find_row(args.inputs, blockIdx.x);
  const bool has_work = row.num_keys > 0 && head < args.num_heads;

  const int head_dim = args.head_dim;
  const int page_size = args.page_size;
  const int kv_head = head / args.group;
  const KV* pages = reinterpret_cast<const KV*>(args.pages);
  // K of one token; its V is half_elements further.
  const auto key_row = [&](int key) {
    const int64_t page = args.inputs.page_ids[row.first_page + key / page_size];
    return pages + page * 2 * args.half_elements + kv_head * args.head_elements +
           int64_t{key % page_size} * head_dim;
  };

  float* q = shared_q[warp];
  const T* q_row =
      static_cast<const T*>(args.q) + blockIdx.x * args.q_stride + int64_t{head} * head_dim;
  if (has_work) {
    for (int i = lane; i < head_dim; i += W) q[i] = to_float(q_row[i]) * args.scale;
  }
  __syncthreads();
  if (!has_work) return;

  float sums[kMaxDimsPerLane] = {};
  float highest = kLowest;
  float total = 0.0F;
  for (int first = 0; first < row.num_keys; first += W) {
    const int count = min(W, row.num_keys - first);
    const KV* mine = key_row(first + min(lane, count - 1));
    const float score = lane < count ? dot_row(q, mine, head_dim) : kLowest;
    const float before = highest;
    highest = fmaxf(highest, warp_max<W>(score));
    const float weight = lane < count ? exp2f(score - highest) : 0.0F;
    const float fade = exp2f(before - highest);
    total = total * fade + warp_sum<W>(weight);
#pragma unroll
    for (int i = 0; i < kMaxDimsPerLane; ++i) sums[i] *= fade;
    for (int j = 0; j < count; ++j) {
      const float p = shuffle<W>(weight, j);
      const KV* v = key_row(first + j) + args.half_elements;
#pragma unroll
      for (int i = 0; i < kMaxDimsPerLane; ++i) {
        const int dim = i * W + lane;
        if (dim < head_dim) sums[i] += p * to_float(v[dim]);
      }
    }
  }
  T* y_row = static_cast<T*>(args.y) + blockIdx.x * args.y_stride + int64_t{head} * head_dim;
#pragma unroll
  for (int i = 0; i < kMaxDimsPerLane; ++i) {
    const int dim = i * W + lane;
    if (dim < head_dim) store_float(sums[i] / total, y_row + dim);
  }
}

template <typename T, typename KV>
LaunchError launch_types(dim3 grid, const Launch& launch, const PlainArgs& args) {
  return with_lanes(launch, [&]<int W>() {
    return launch_kernel(plain_kernel<W, T, KV>, grid, kWarps * W, 0, launch, args);
  });
}

template <typename T>
LaunchError launch_for(Element cache, dim3 grid, const Launch& launch, const PlainArgs& args) {
  switch (cache) {
    case Element::kF32:
      return launch_types<T, float>(grid, launch, args);
    case Element::kF16:
      return launch_types<T, f16>(grid, launch, args);
    case Element::kBF16:
      return launch_types<T, bf16>(grid, launch, args);
  }
  return gpuErrorInvalidValue;
}

}  // namespace

LaunchError launch_plain(const AttentionShape& shape, const AttentionBounds& bounds,
                         const AttentionArgs& args, const Launch& launch) {
  PlainArgs plain{};
  plain.inputs = args.inputs;
  plain.q = args.q;
  plain.y = args.y;
  plain.q_stride = args.q_stride;
  plain.y_stride = args.y_stride;
  plain.pages = args.kv.data;
  plain.head_elements = shape.kv.head_elements();
  plain.half_elements = shape.kv.half_elements();
  plain.page_size = shape.kv.page_size;
  plain.head_dim = shape.kv.head_dim;
  plain.group = shape.num_heads / shape.kv.num_kv_heads;
  plain.num_heads = shape.num_heads;
  plain.scale = args.scale * kLog2E;
  const dim3 grid(static_cast<unsigned>(bounds.max_tokens),
                  static_cast<unsigned>((shape.num_heads + kWarps - 1) / kWarps));
  switch (shape.element) {
    case Element::kF32:
      return launch_for<float>(shape.kv.element, grid, launch, plain);
    case Element::kF16:
      return launch_for<f16>(shape.kv.element, grid, launch, plain);
    case Element::kBF16:
      return launch_for<bf16>(shape.kv.element, grid, launch, plain);
  }
  return gpuErrorInvalidValue;
}

}  // namespace encore::gpu
