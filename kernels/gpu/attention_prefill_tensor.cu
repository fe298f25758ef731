// Causal prefill attention with warp-level matrix instructions (sm_80 and later).
//
// A thread block works on 64 rows of a tile, 16 a warp: the heads that share a KV head (as many as
// fit), side by side for each query row. Keys come in blocks of 64, last block first, which is the
// one that needs masking; the next block is copied while this one is computed.
//
// Source: Dao 2023 (FlashAttention-2): a warp keeps whole rows, so that softmax needs no shared
// memory.
#include <algorithm>
#include <bit>

#include "attention_internal.h"
#include "attention_prefill_rows.cuh"
#include "launch.cuh"
#include "mma.cuh"

namespace encore::gpu {
namespace {

constexpr int kWarpSize = 32;
constexpr int kRows = 64;  // of a thread block
constexpr int kKeys = 64;  // of a block of keys
constexpr int kWarpRows = 16;
constexpr int kThreads = kRows / kWarpRows * kWarpSize;
constexpr int kStages = 2;

struct Params {
  const PrefillTile* tiles;
  const int32_t* num_tiles;
  const int32_t* page_ids;
  const std::byte* pages;
  int64_t page_bytes;
  int64_t half_bytes;  // from a page's keys to its values
  const void* q;
  void* y;
  int64_t q_stride;
  int64_t y_stride;
  float scale;            // with log2(e)
  int32_t group;          // heads of q for each KV head
  int32_t packed;         // of those, how many a thread block takes
  int32_t groups_per_kv;  // ceil(group / packed): thread blocks for a tile and KV head
  int32_t head_groups;    // num_kv_heads * groups_per_kv
  int32_t page_shift;     // log2 of the page size
};

// Rows of kHeadDim elements in shared memory, in pieces of 16 bytes, laid so that the same piece of
// 8 rows lies in 8 different groups of banks.
template <int kHeadDim>
struct Rows {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kBytes = kHeadDim * 2;

  __device__ static int offset(int row, int piece) {
    const int place =
        kPieces % 8 == 0 ? piece ^ (row % 8) : piece / 4 * 4 + (piece ^ (row / 2)) % 4;
    return row * kBytes + place * 16;
  }
};

// What a thread block works on.
struct Work {
  PrefillTile tile;
  int kv_head;
  int head;       // the first; of q
  int num_heads;  // 1 .. packed
};

__device__ inline Work find_work(const Params& params, int item) {
  const int4 words = reinterpret_cast<const int4*>(params.tiles)[item / params.head_groups];
  const int head_group = item % params.head_groups;
  const int first = head_group % params.groups_per_kv * params.packed;
  Work work;
  work.tile = PrefillTile{words.x, words.y, words.z, words.w};
  work.kv_head = head_group / params.groups_per_kv;
  work.head = work.kv_head * params.group + first;
  work.num_heads = min(params.packed, params.group - first);
  return work;
}

template <typename T, int kHeadDim>
class Prefill {
 public:
  using Row = Rows<kHeadDim>;
  struct Shared {
    unsigned char q[kRows * Row::kBytes];
    unsigned char k[kStages][kKeys * Row::kBytes];
    unsigned char v[kStages][kKeys * Row::kBytes];
  };

  __device__ Prefill(Shared& shared, const Params& params, const Work& work)
      : shared_(shared),
        params_(params),
        work_(work),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % kWarpSize),
        first_row_(thread_ / kWarpSize * kWarpRows) {}

  __device__ __forceinline__ void run() {
    const int last = (work_.tile.kv_end - 1) / kKeys;
    copy_q();
    copy_keys(last, 0);
    commit_copies();
    for (int block = last; block >= 0; --block) {
      const int stage = (last - block) % kStages;
      if (block > 0) copy_keys(block - 1, 1 - stage);
      commit_copies();
      wait_copies<1>();
      __syncthreads();
      if (block == last) load_q();
      multiply_keys(stage);
      mask(block);
      float correction[2];
      softmax_step(scores_, rows_, params_.scale, correction);
      scale_rows(sums_, correction);
      multiply_values(stage);
      __syncthreads();
    }
    finish_rows(sums_, rows_);
#pragma unroll
    for (int i = 0; i < 2; ++i) store_row(y_row(own_row(i)), sums_, i, lane_ % 4);
  }

 private:
  // Row of the thread block that this lane's accumulator row i is.
  __device__ int own_row(int i) const { return first_row_ + lane_ / 4 + 8 * i; }
  __device__ int query(int row) const { return row / params_.packed; }
  __device__ int head(int row) const { return row % params_.packed; }
  __device__ bool is_live(int row) const {
    return query(row) < work_.tile.num_rows && head(row) < work_.num_heads;
  }
  // The last key that a row sees. Rows without a query see what the last one does.
  __device__ int position(int row) const {
    return work_.tile.kv_end - work_.tile.num_rows + min(query(row), work_.tile.num_rows - 1);
  }
  __device__ T* y_row(int row) const {
    if (!is_live(row)) return nullptr;
    return static_cast<T*>(params_.y) + (work_.tile.q_row + query(row)) * params_.y_stride +
           int64_t{work_.head + head(row)} * kHeadDim;
  }

  // The copies are 16 bytes a thread and step; what is not live becomes 0.
  __device__ void copy_q() const {
    const T* q = static_cast<const T*>(params_.q);
    for (int i = thread_; i < kRows * Row::kPieces; i += kThreads) {
      const int row = i / Row::kPieces;
      const int piece = i % Row::kPieces;
      const bool live = is_live(row);
      const int64_t from = live ? (work_.tile.q_row + query(row)) * params_.q_stride +
                                      int64_t{work_.head + head(row)} * kHeadDim
                                : 0;
      copy16_async(shared_window(shared_.q + Row::offset(row, piece)), q + from + piece * 8, live);
    }
  }

  __device__ void copy_keys(int block, int stage) const {
    const int page_mask = (1 << params_.page_shift) - 1;
    const int64_t head_bytes = int64_t{work_.kv_head} * Row::kBytes << params_.page_shift;
#pragma unroll 2
    for (int i = thread_; i < kKeys * Row::kPieces; i += kThreads) {
      const int row = i / Row::kPieces;
      const int piece = i % Row::kPieces;
      const int key = block * kKeys + row;
      const bool live = key < work_.tile.kv_end;
      const int page = live ? key >> params_.page_shift : 0;
      const int64_t page_id = params_.page_ids[work_.tile.first_page + page];
      const std::byte* from = params_.pages + page_id * params_.page_bytes + head_bytes +
                              (key & page_mask) * Row::kBytes + piece * 16;
      const int to = Row::offset(row, piece);
      copy16_async(shared_window(shared_.k[stage] + to), from, live);
      copy16_async(shared_window(shared_.v[stage] + to), from + params_.half_bytes, live);
    }
  }

  __device__ void load_q() {
    const int row = first_row_ + lane_ % 16;
#pragma unroll
    for (int j = 0; j < kHeadDim / 16; ++j) {
      load_matrices(q_[j], shared_window(shared_.q + Row::offset(row, 2 * j + lane_ / 16)));
    }
  }

  __device__ __forceinline__ void multiply_keys(int stage) {
    const int key = lane_ / 16 * 8 + lane_ % 8;
    const int piece = lane_ / 8 % 2;
#pragma unroll
    for (float& score : scores_) score = 0.0F;
#pragma unroll
    for (int j = 0; j < kHeadDim / 16; ++j) {
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        uint32_t k[4];
        load_matrices(k, shared_window(shared_.k[stage] + Row::offset(n + key, 2 * j + piece)));
        mma_16x8x16<T>(four(scores_, n / 2), q_[j], k[0], k[1]);
        mma_16x8x16<T>(four(scores_, n / 2 + 4), q_[j], k[2], k[3]);
      }
    }
  }

  __device__ __forceinline__ void multiply_values(int stage) {
    uint32_t weights[kKeys / 4];
    pack_weights<T>(scores_, weights);
    const int key = lane_ % 16;
    const int piece = lane_ / 16;
#pragma unroll
    for (int n = 0; n < kKeys; n += 16) {
      const uint32_t a[4] = {weights[n / 4], weights[n / 4 + 1], weights[n / 4 + 2],
                             weights[n / 4 + 3]};
#pragma unroll
      for (int j = 0; j < kHeadDim / 16; ++j) {
        uint32_t v[4];
        load_matrices_transposed(
            v, shared_window(shared_.v[stage] + Row::offset(n + key, 2 * j + piece)));
        mma_16x8x16<T>(four(sums_, 8 * j), a, v[0], v[1]);
        mma_16x8x16<T>(four(sums_, 8 * j + 4), a, v[2], v[3]);
      }
    }
  }

  __device__ __forceinline__ void mask(int block) {
    const int first_key = block * kKeys;
    if (first_key + kKeys - 1 <= position(first_row_)) return;
    const int first = first_key + lane_ % 4 * 2;
    mask_scores(scores_, {position(own_row(0)) - first, position(own_row(1)) - first});
  }

  // Accumulators of one product of 16 x 8.
  template <int kCount>
  __device__ static float (&four(float (&values)[kCount], int first))[4] {
    return reinterpret_cast<float(&)[4]>(values[first]);
  }

  Shared& shared_;
  const Params& params_;
  const Work work_;
  const int thread_;
  const int lane_;
  const int first_row_;  // of this warp
  uint32_t q_[kHeadDim / 16][4];
  float scores_[kKeys / 2];
  float sums_[kHeadDim / 2] = {};
  SoftmaxRows rows_;
};

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2) attention_prefill_tensor(const Params params) {
  using Kernel = Prefill<T, kHeadDim>;
  ENCORE_GPU_DYNAMIC_SHARED(typename Kernel::Shared, shared);
  wait_for_previous_kernel();
  const int item = static_cast<int>(blockIdx.x);
  if (item >= *params.num_tiles * params.head_groups) return;
  Kernel(*shared, params, find_work(params, item)).run();
}

template <typename T, int kHeadDim>
LaunchError launch_for(const Params& params, int num_blocks, const Launch& launch) {
  const auto kernel = attention_prefill_tensor<T, kHeadDim>;
  constexpr int kBytes = sizeof(typename Prefill<T, kHeadDim>::Shared);
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != gpuSuccess) return error;
  return launch_kernel(kernel, num_blocks, kThreads, kBytes, launch, params);
}

template <typename T>
LaunchError launch_of(const Params& params, int head_dim, int num_blocks, const Launch& launch) {
  switch (head_dim) {
    case 64:
      return launch_for<T, 64>(params, num_blocks, launch);
    case 96:
      return launch_for<T, 96>(params, num_blocks, launch);
    case 128:
      return launch_for<T, 128>(params, num_blocks, launch);
  }
  return gpuErrorInvalidValue;
}

}  // namespace

LaunchError launch_prefill_tensor(const AttentionShape& shape, const AttentionBounds& bounds,
                                  const AttentionArgs& args, const AttentionWorkspace& workspace,
                                  const Launch& launch) {
  const KvLayout& kv = shape.kv;
  const int32_t tile_rows = prefill_tile_rows(shape, AttentionPath::kTensor);
  Params params{};
  params.tiles = workspace.tiles;
  params.num_tiles = workspace.num_tiles;
  params.page_ids = args.inputs.page_ids;
  params.pages = args.kv.data;
  params.page_bytes = kv.page_bytes();
  params.half_bytes = kv.half_elements() * element_bytes(kv.element);
  params.q = args.q;
  params.y = args.y;
  params.q_stride = args.q_stride;
  params.y_stride = args.y_stride;
  params.scale = args.scale * kLog2E;
  params.group = shape.num_heads / kv.num_kv_heads;
  params.packed = std::min(params.group, kRows / tile_rows);
  params.groups_per_kv = (params.group + params.packed - 1) / params.packed;
  params.head_groups = kv.num_kv_heads * params.groups_per_kv;
  params.page_shift = std::countr_zero(static_cast<uint32_t>(kv.page_size));
  const int num_blocks =
      max_prefill_tiles(shape, bounds, AttentionPath::kTensor) * params.head_groups;
  if (num_blocks == 0) return gpuSuccess;
  return shape.element == Element::kF16 ? launch_of<f16>(params, kv.head_dim, num_blocks, launch)
                                        : launch_of<bf16>(params, kv.head_dim, num_blocks, launch);
}

}  // namespace encore::gpu
