// Causal prefill attention with warp-level matrix instructions (sm_80 and later).
//
// A thread block works on 64 rows, 16 a warp. Keys come in blocks of 64, last block first, which is
// the one that needs masking; the next block is copied while this one is computed.
//
// Source: Dao 2023 (FlashAttention-2): a warp keeps whole rows, so that softmax needs no shared
// memory.
#include "attention_internal.h"
#include "attention_prefill_rows.cuh"
#include "attention_prefill_work.cuh"
#include "launch.cuh"
#include "mma.cuh"

namespace encore::gpu {
namespace {

constexpr int kWarpSize = 32;
constexpr int kRows = kPrefillRows;
constexpr int kKeys = 64;  // of a block of keys
constexpr int kWarpRows = 16;
constexpr int kThreads = kRows / kWarpRows * kWarpSize;
constexpr int kStages = 2;

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

template <typename T, int kHeadDim>
class Prefill {
 public:
  using Row = Rows<kHeadDim>;
  struct Shared {
    unsigned char q[kRows * Row::kBytes];
    unsigned char k[kStages][kKeys * Row::kBytes];
    unsigned char v[kStages][kKeys * Row::kBytes];
  };

  __device__ Prefill(Shared& shared, const PrefillParams& params, const PrefillWork& work)
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
  __device__ T* y_row(int row) const {
    if (!work_.is_live(row)) return nullptr;
    return static_cast<T*>(params_.y) + work_.offset(row, params_.y_stride, kHeadDim);
  }

  // The copies are 16 bytes a thread and step; what is not live becomes 0.
  __device__ void copy_q() const {
    const T* q = static_cast<const T*>(params_.q);
    for (int i = thread_; i < kRows * Row::kPieces; i += kThreads) {
      const int row = i / Row::kPieces;
      const int piece = i % Row::kPieces;
      const bool live = work_.is_live(row);
      const int64_t from = live ? work_.offset(row, params_.q_stride, kHeadDim) : 0;
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
    if (first_key + kKeys - 1 <= work_.position(first_row_)) return;
    const int first = first_key + lane_ % 4 * 2;
    mask_scores(scores_, {work_.position(own_row(0)) - first, work_.position(own_row(1)) - first});
  }

  // Accumulators of one product of 16 x 8.
  template <int kCount>
  __device__ static float (&four(float (&values)[kCount], int first))[4] {
    return reinterpret_cast<float(&)[4]>(values[first]);
  }

  Shared& shared_;
  const PrefillParams& params_;
  const PrefillWork work_;
  const int thread_;
  const int lane_;
  const int first_row_;  // of this warp
  uint32_t q_[kHeadDim / 16][4];
  float scores_[kKeys / 2];
  float sums_[kHeadDim / 2] = {};
  SoftmaxRows rows_;
};

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    attention_prefill_tensor(const PrefillParams params) {
  using Kernel = Prefill<T, kHeadDim>;
  ENCORE_GPU_DYNAMIC_SHARED(typename Kernel::Shared, shared);
  wait_for_previous_kernel();
  const int item = static_cast<int>(blockIdx.x);
  if (item >= *params.num_tiles * params.head_groups) return;
  Kernel(*shared, params, PrefillWork::find(params, item)).run();
}

template <typename T, int kHeadDim>
LaunchError launch_for(const PrefillParams& params, int num_blocks, const Launch& launch) {
  const auto kernel = attention_prefill_tensor<T, kHeadDim>;
  constexpr int kBytes = sizeof(typename Prefill<T, kHeadDim>::Shared);
  const LaunchError error =
      gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != gpuSuccess) return error;
  return launch_kernel(kernel, num_blocks, kThreads, kBytes, launch, params);
}

template <typename T>
LaunchError launch_of(const PrefillParams& params, int head_dim, int num_blocks,
                      const Launch& launch) {
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
  const PrefillParams params = prefill_params(shape, args, workspace, AttentionPath::kTensor);
  const int num_blocks =
      max_prefill_tiles(shape, bounds, AttentionPath::kTensor) * params.head_groups;
  if (num_blocks == 0) return gpuSuccess;
  return shape.element == Element::kF16
             ? launch_of<f16>(params, shape.kv.head_dim, num_blocks, launch)
             : launch_of<bf16>(params, shape.kv.head_dim, num_blocks, launch);
}

}  // namespace encore::gpu
