// Cuts a step's attention into the work lists of attention_internal.h: one thread block, once a
// step, from lengths that it reads on the device.
//
// Decode. A request's context is cut into round(keys / chunk) even pieces, at least one, where
// chunk is the step's keys over the pieces that the device holds at once. Requests cut into n >= 2
// pieces have n <= keys / chunk + 1/2, so all need at most `places` more than one each: a bound
// known when recording, without a search.
//
// The kernel lets no other start before it has ended, and its writes are out by then. So kernels
// after it may read them, and whatever kernels before it wrote, before they wait for anything.
//
// Both lists are ordered longest first (blocks start in order, and the short ones fill the end). An
// entry's place is the number of longer ones: each thread counts for its own.
#include <algorithm>

#include "attention_internal.h"
#include "launch.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kMaxThreads = 1024;  // a request each
constexpr int kMinThreads = 256;
constexpr int kPageTile = 16;  // pieces start at multiples of the smallest page

struct PlanArgs {
  AttentionInputs inputs;
  AttentionWorkspace workspace;
  DecodeGrid decode;
  int32_t max_requests;
  int32_t max_tiles;
  int32_t tile_rows;
};

__host__ __device__ inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Sum of `value` over the threads up to and including this one. `shared` holds one value a warp.
template <int W>
__device__ inline int block_inclusive_sum(int value, int* shared) {
  const int warp = threadIdx.x / W;
  const int lane = threadIdx.x % W;
  for (int delta = 1; delta < W; delta *= 2) {
    const int before = shuffle_up<W>(value, delta);
    if (lane >= delta) value += before;
  }
  if (lane == W - 1) shared[warp] = value;
  __syncthreads();
  for (int i = 0; i < warp; ++i) value += shared[i];
  __syncthreads();
  return value;
}

// The first i with ends[i] > entry; ends ascend, and the last one is above.
__device__ inline int find_owner(const int* ends, int count, int entry) {
  int low = 0;
  int high = count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ends[middle] > entry) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Entries that come before `entry` in the order longest first.
__device__ inline int place_of(const int* lengths, int count, int entry) {
  const int length = lengths[entry];
  int place = 0;
  for (int i = 0; i < count; ++i) {
    const int other = lengths[i];
    place += (other > length || (other == length && i < entry)) ? 1 : 0;
  }
  return place;
}

struct Request {
  int q_row;
  int q_len;
  int kv_len;
  int first_page;
};

__device__ inline Request load_request(const AttentionInputs& inputs, int index) {
  Request request;
  request.q_row = inputs.q_start[index];
  request.q_len = inputs.q_start[index + 1] - request.q_row;
  request.kv_len = inputs.kv_len[index];
  request.first_page = inputs.page_start[index];
  return request;
}

// `ends` [live], `lengths` [slots] and `warp_sums` are shared memory.
template <int W>
__device__ void plan_decode(const PlanArgs& args, const Request& request, int live, int* ends,
                            int* lengths, int* warp_sums) {
  const int self = threadIdx.x;
  const int keys = request.q_len == 1 ? request.kv_len : 0;
  const int total_keys = block_sum<W>(keys, warp_sums);
  const int chunk = max(args.decode.min_piece_keys, ceil_div(total_keys, args.decode.places));
  const int mine = request.q_len == 1 ? max((2 * keys + chunk) / (2 * chunk), 1) : 0;
  const int end = block_inclusive_sum<W>(mine, warp_sums);
  if (self < live) ends[self] = end;
  __syncthreads();
  const int total = live > 0 ? min(ends[live - 1], args.decode.slots) : 0;

  const auto piece_of = [&](int entry) {
    const int owner = find_owner(ends, live, entry);
    const Request of = load_request(args.inputs, owner);
    DecodePiece piece;
    piece.first_partial = owner > 0 ? ends[owner - 1] : 0;
    piece.num_pieces = ends[owner] - piece.first_partial;
    piece.partial = entry;
    piece.request = owner;
    piece.q_row = of.q_row;
    piece.first_page = of.first_page;
    const int tiles = ceil_div(of.kv_len, kPageTile);
    const int index = entry - piece.first_partial;
    piece.first_key = tiles * index / piece.num_pieces * kPageTile;
    piece.end_key = min(tiles * (index + 1) / piece.num_pieces * kPageTile, of.kv_len);
    return piece;
  };
  for (int entry = self; entry < total; entry += blockDim.x) {
    const DecodePiece piece = piece_of(entry);
    lengths[entry] = piece.end_key - piece.first_key;
  }
  __syncthreads();
  for (int entry = self; entry < total; entry += blockDim.x)
    args.workspace.pieces[place_of(lengths, total, entry)] = piece_of(entry);
  for (int entry = total + self; entry < args.decode.slots; entry += blockDim.x)
    args.workspace.pieces[entry] = DecodePiece{};
  const int counters = live * args.decode.head_groups * args.decode.cluster;
  for (int i = self; i < counters; i += blockDim.x) args.workspace.counters[i] = 0;
}

template <int W>
__device__ void plan_prefill(const PlanArgs& args, const Request& request, int live, int* ends,
                             int* lengths, int* warp_sums) {
  const int self = threadIdx.x;
  const int mine = request.q_len > 1 ? ceil_div(request.q_len, args.tile_rows) : 0;
  const int end = block_inclusive_sum<W>(mine, warp_sums);
  if (self < live) ends[self] = end;
  __syncthreads();
  const int total = live > 0 ? min(ends[live - 1], args.max_tiles) : 0;

  const auto tile_of = [&](int entry) {
    const int owner = find_owner(ends, live, entry);
    const Request of = load_request(args.inputs, owner);
    const int first = (entry - (owner > 0 ? ends[owner - 1] : 0)) * args.tile_rows;
    PrefillTile tile;
    tile.q_row = of.q_row + first;
    tile.num_rows = min(args.tile_rows, of.q_len - first);
    tile.kv_end = of.kv_len - of.q_len + first + tile.num_rows;
    tile.first_page = of.first_page;
    return tile;
  };
  for (int entry = self; entry < total; entry += blockDim.x) lengths[entry] = tile_of(entry).kv_end;
  __syncthreads();
  for (int entry = self; entry < total; entry += blockDim.x)
    args.workspace.tiles[place_of(lengths, total, entry)] = tile_of(entry);
  if (self == 0) *args.workspace.num_tiles = total;
  if (self < kPrefillCounters) args.workspace.prefill_counters[self] = 0;
}

template <int W>
__global__ void __launch_bounds__(kMaxThreads) plan_kernel(const PlanArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  ENCORE_GPU_DYNAMIC_SHARED(int, lengths);
  __shared__ int ends[kMaxThreads];
  __shared__ int warp_sums[kMaxThreads / W];
  wait_for_previous_kernel();
  const int live = max(min(*args.inputs.num_requests, args.max_requests), 0);
  Request request{};
  if (static_cast<int>(threadIdx.x) < live) request = load_request(args.inputs, threadIdx.x);
  plan_decode<W>(args, request, live, ends, lengths, warp_sums);
  if (args.max_tiles > 0) {
    __syncthreads();
    plan_prefill<W>(args, request, live, ends, lengths, warp_sums);
  }
  __threadfence();
}

}  // namespace

LaunchError launch_attention_plan(const AttentionShape& shape, const AttentionBounds& bounds,
                                  AttentionPath path, const AttentionInputs& inputs,
                                  const AttentionWorkspace& workspace, const Launch& launch) {
  PlanArgs args{};
  args.inputs = inputs;
  args.workspace = workspace;
  args.decode = decode_grid(shape, bounds, path);
  args.max_requests = bounds.max_requests;
  args.max_tiles = max_prefill_tiles(shape, bounds, path);
  args.tile_rows = prefill_tile_rows(shape, path);
  // Whole groups of four: nvcc reads the last lengths of a list by 16 bytes.
  const size_t shared_bytes =
      sizeof(int4) * static_cast<size_t>(ceil_div(std::max(args.decode.slots, args.max_tiles), 4));
  static_assert(kMaxPlanEntries % 4 == 0 &&
                kMaxPlanEntries * sizeof(int) <= 40 << 10);  // 48 KB less `ends`
  const int threads =
      std::clamp(whole_warps(bounds.max_requests, launch), kMinThreads, kMaxThreads);
  return with_lanes(launch, [&]<int W>() {
    return launch_kernel(plan_kernel<W>, 1, threads, shared_bytes, launch, args);
  });
}

}  // namespace encore::gpu
