// Paged attention: which path serves a shape, how the workspace is cut, and which kernels run.
// The kernels are in attention_{plan,plain,decode,prefill}*.cu and sm90/attention_prefill.cu.
#include <algorithm>
#include <limits>

#include "attention_internal.h"
#include "kernels/gpu/attention.h"
#include "vendor.h"

namespace encore::gpu {
namespace {

constexpr int32_t kPlainMaxHeadDim = 256;
// Decode thread blocks that one multiprocessor holds at once (their shared memory decides).
constexpr int32_t kBlocksPerProcessor = 2;
// A device full of blocks this many times over, where blocks are not in clusters: the pieces then
// even out.
constexpr int32_t kWaves = 2;
constexpr int32_t kMaxPlaces = 2048;
constexpr int32_t kMaxCluster = 8;
constexpr int32_t kMinClusterKeys = 256;  // a block's share of a piece, in a cluster
constexpr int32_t kMinBlockKeys = 128;    // of a block alone
constexpr int32_t kMaxPacked = 8;         // heads in a prefill tile: more would make tiles many

constexpr int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }
constexpr size_t align256(size_t bytes) { return (bytes + 255) / 256 * 256; }

bool plain_serves(const AttentionShape& shape) {
  const KvLayout& kv = shape.kv;
  return kv.num_kv_heads > 0 && shape.num_heads > 0 && shape.num_heads % kv.num_kv_heads == 0 &&
         kv.head_dim > 0 && kv.head_dim % 8 == 0 && kv.head_dim <= kPlainMaxHeadDim &&
         kv.page_size > 0;
}

bool tensor_serves(const AttentionShape& shape) {
  const KvLayout& kv = shape.kv;
  return plain_serves(shape) && shape.element == kv.element && kv.element != Element::kF32 &&
         (kv.head_dim == 64 || kv.head_dim == 96 || kv.head_dim == 128) &&
         (kv.page_size == 16 || kv.page_size == 32 || kv.page_size == 64);
}

bool serves(const AttentionShape& shape, const AttentionBounds& bounds, AttentionPath path) {
  return (path == AttentionPath::kPlain ? plain_serves(shape) : tensor_serves(shape)) &&
         bounds.max_tokens > 0 && bounds.max_requests > 0 &&
         bounds.max_requests <= kAttentionMaxRequests &&
         (bounds.decode_only ||
          bounds.max_tokens <= attention_max_tokens(shape, bounds.max_requests, path)) &&
         (path == AttentionPath::kPlain || bounds.num_processors > 0);
}

// Decode pieces always have room in the plan: see decode_grid().
static_assert(kAttentionMaxRequests + kMaxPlaces <= kMaxPlanEntries);

// The largest power of two that keeps all blocks of max_requests clusters on the device at once.
int32_t cluster_size(int32_t clusters, int32_t blocks_at_once) {
  int32_t size = 1;
  while (size < kMaxCluster && clusters * size * 2 <= blocks_at_once) size *= 2;
  return size;
}

// Takes arrays off a block of memory one after another, each 256-byte aligned.
class Cutter {
 public:
  explicit Cutter(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <typename T>
  T* take(size_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += align256(count * sizeof(T));
    return reinterpret_cast<T*>(at);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

}  // namespace

AttentionPath attention_path(const AttentionShape& shape, const DeviceTraits& device) {
#if defined(__CUDA_ARCH_LIST__)
  constexpr int32_t kBuiltFor[] = {__CUDA_ARCH_LIST__};  // 800, 900, ...
  const bool hopper_built = std::ranges::find(kBuiltFor, 900) != std::ranges::end(kBuiltFor);
#else
  const bool hopper_built = false;
#endif
  if (!tensor_serves(shape)) return AttentionPath::kPlain;
  switch (device.matrix_unit) {
    case MatrixUnit::kNone:
      return AttentionPath::kPlain;
    case MatrixUnit::kMma:  // wgmma is of 9.0 alone
      return device.compute_capability == 90 && hopper_built ? AttentionPath::kHopper
                                                             : AttentionPath::kTensor;
    case MatrixUnit::kMfma:
      return AttentionPath::kMfma;
    case MatrixUnit::kWmma:
      return AttentionPath::kWmma;
  }
  return AttentionPath::kPlain;
}

DecodeGrid decode_grid(const AttentionShape& shape, const AttentionBounds& bounds,
                       AttentionPath path) {
  const int32_t group = shape.num_heads / shape.kv.num_kv_heads;
  const int32_t blocks_at_once = bounds.num_processors * kBlocksPerProcessor;
  DecodeGrid grid;
  grid.head_groups = shape.kv.num_kv_heads * ceil_div(group, kDecodeHeads);
  if (path == AttentionPath::kHopper)
    grid.cluster = cluster_size(bounds.max_requests * grid.head_groups, blocks_at_once);
  const int32_t waves = grid.cluster > 1 ? 1 : kWaves;
  grid.places =
      std::clamp(waves * blocks_at_once / (grid.head_groups * grid.cluster), 1, kMaxPlaces);
  grid.slots = bounds.max_requests + grid.places;
  grid.rows = bounds.decode_only
                  ? grid.slots
                  : std::clamp(blocks_at_once / (grid.head_groups * grid.cluster), 1, grid.slots);
  grid.min_piece_keys = grid.cluster > 1 ? grid.cluster * kMinClusterKeys : kMinBlockKeys;
  return grid;
}

int32_t prefill_tile_rows(const AttentionShape& shape, AttentionPath path) {
  // The heads that share a KV head lie side by side in a tile, in even groups of at most
  // kMaxPacked: requests that do not fill a tile then waste less of it.
  const int32_t group = shape.num_heads / shape.kv.num_kv_heads;
  const int32_t packed = ceil_div(group, ceil_div(group, kMaxPacked));
  return (path == AttentionPath::kHopper && shape.kv.head_dim != 96 ? 128 : 64) / packed;
}

int32_t max_prefill_tiles(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path) {
  if (bounds.decode_only) return 0;
  const int32_t rows = prefill_tile_rows(shape, path);
  const int32_t requests = std::min(bounds.max_requests, bounds.max_tokens / 2);
  return (bounds.max_tokens + requests * (rows - 1)) / rows;
}

// The inverse of max_prefill_tiles(), where there are at least two tokens for each request.
int32_t attention_max_tokens(const AttentionShape& shape, int32_t max_requests,
                             AttentionPath path) {
  if (path == AttentionPath::kPlain) return std::numeric_limits<int32_t>::max();
  const int32_t rows = prefill_tile_rows(shape, path);
  return (kMaxPlanEntries + 1) * rows - 1 - max_requests * (rows - 1);
}

AttentionWorkspace attention_workspace(const AttentionShape& shape, const AttentionBounds& bounds,
                                       AttentionPath path, void* base) {
  const DecodeGrid grid = decode_grid(shape, bounds, path);
  const auto groups = static_cast<size_t>(grid.head_groups);
  const auto cluster = static_cast<size_t>(grid.cluster);
  const auto slots = static_cast<size_t>(grid.slots);
  const size_t heads = slots * groups * kDecodeHeads;
  Cutter cutter(base);
  AttentionWorkspace workspace;
  workspace.pieces = cutter.take<DecodePiece>(slots);
  workspace.partial_sums = cutter.take<float>(heads * static_cast<size_t>(shape.kv.head_dim));
  workspace.partial_stats = cutter.take<float>(heads * cluster * 2);
  workspace.counters =
      cutter.take<int32_t>(static_cast<size_t>(bounds.max_requests) * groups * cluster);
  workspace.tiles =
      cutter.take<PrefillTile>(static_cast<size_t>(max_prefill_tiles(shape, bounds, path)));
  workspace.num_tiles = cutter.take<int32_t>(1);
  workspace.prefill_counters = cutter.take<int32_t>(kPrefillCounters);
  workspace.bytes = cutter.bytes();
  return workspace;
}

size_t attention_workspace_bytes(const AttentionShape& shape, const AttentionBounds& bounds,
                                 AttentionPath path) {
  if (path == AttentionPath::kPlain || !serves(shape, bounds, path)) return 0;
  // Fewer requests may mean larger clusters, and those more partial results.
  size_t bytes = 0;
  AttentionBounds smaller = bounds;
  for (smaller.max_requests = 1; smaller.max_requests <= bounds.max_requests;
       ++smaller.max_requests) {
    bytes = std::max(bytes, attention_workspace(shape, smaller, path, nullptr).bytes);
  }
  return bytes;
}

LaunchError attention_plan(const AttentionShape& shape, const AttentionBounds& bounds,
                           AttentionPath path, const AttentionInputs& inputs, void* workspace,
                           const Launch& launch) {
  if (!serves(shape, bounds, path)) return gpuErrorInvalidValue;
  if (path == AttentionPath::kPlain) return gpuSuccess;
  return launch_attention_plan(shape, bounds, path, inputs,
                               attention_workspace(shape, bounds, path, workspace), launch);
}

namespace {

LaunchError run_decode(const AttentionShape& shape, const AttentionBounds& bounds,
                       AttentionPath path, const AttentionArgs& args,
                       const AttentionWorkspace& workspace, const Launch& launch) {
#if !defined(ENCORE_GPU_CUDA)
  if (path == AttentionPath::kMfma || path == AttentionPath::kWmma)
    return launch_decode_matrix(shape, bounds, path, args, workspace, launch);
#endif
#if !defined(ENCORE_GPU_HIP)
  if (path == AttentionPath::kTensor || path == AttentionPath::kHopper ||
      path == AttentionPath::kMma)
    return launch_decode(shape, bounds, path, args, workspace, launch);
#endif
  return gpuErrorInvalidValue;
}

LaunchError run_prefill(const AttentionShape& shape, const AttentionBounds& bounds,
                        AttentionPath path, const AttentionArgs& args,
                        const AttentionWorkspace& workspace, const Launch& launch) {
#if defined(ENCORE_GPU_CUDA)
  if (path == AttentionPath::kHopper && shape.kv.head_dim != 96)
    return launch_prefill_hopper(shape, bounds, args, workspace, launch);
#endif
#if !defined(ENCORE_GPU_HIP)
  if (path == AttentionPath::kTensor || path == AttentionPath::kHopper)
    return launch_prefill_tensor(shape, bounds, args, workspace, launch);
#endif
  return launch_prefill_matrix(shape, bounds, path, args, workspace, launch);
}

}  // namespace

LaunchError attention_run(const AttentionShape& shape, const AttentionBounds& bounds,
                          AttentionPath path, const AttentionArgs& args, const Launch& launch) {
  if (!serves(shape, bounds, path) || args.q_stride % 8 != 0 || args.y_stride % 8 != 0)
    return gpuErrorInvalidValue;
  if (path == AttentionPath::kPlain) return launch_plain(shape, bounds, args, launch);
  const AttentionWorkspace workspace = attention_workspace(shape, bounds, path, args.workspace);
  const LaunchError error = run_decode(shape, bounds, path, args, workspace, launch);
  if (error != gpuSuccess || bounds.decode_only) return error;
  return run_prefill(shape, bounds, path, args, workspace, launch);
}

bool rope_attention_serves([[maybe_unused]] const AttentionShape& shape,
                           [[maybe_unused]] const AttentionBounds& bounds,
                           [[maybe_unused]] AttentionPath path,
                           [[maybe_unused]] const RopeKvArgs& rope) {
#if defined(ENCORE_GPU_HIP)
  return false;
#else
  return (path == AttentionPath::kTensor || path == AttentionPath::kHopper) &&
         serves(shape, bounds, path) && shape.element == Element::kBF16 && bounds.decode_only &&
         bounds.max_requests == 1 && rope.rotary_dim >= 0 && rope.rotary_dim % 16 == 0 &&
         rope.rotary_dim <= shape.kv.head_dim && rope.qkv_stride % 8 == 0;
#endif
}

LaunchError rope_attention_run([[maybe_unused]] const AttentionShape& shape,
                               [[maybe_unused]] const AttentionBounds& bounds,
                               [[maybe_unused]] AttentionPath path,
                               [[maybe_unused]] const RopeKvArgs& rope,
                               [[maybe_unused]] const AttentionArgs& args,
                               [[maybe_unused]] const Launch& launch) {
#if !defined(ENCORE_GPU_HIP)
  if (rope_attention_serves(shape, bounds, path, rope) && args.y_stride % 8 == 0) {
    return launch_rope_decode(shape, bounds, path, rope, args,
                              attention_workspace(shape, bounds, path, args.workspace), launch);
  }
#endif
  return gpuErrorInvalidValue;
}

}  // namespace encore::gpu
