// Causal prefill attention by the tiles of matrix_tile.cuh: one source for MFMA, WMMA and mma.sync.
//
// A thread block works on 64 rows, 16 a warp. Both products are transposed, so that a row's scores
// and its result lie along a lane's registers, and weights go from one product into the next
// without leaving them:
//   S^T [keys, 16 rows] = K q^T,   O^T [head_dim, 16 rows] += V^T P^T
// Keys come in blocks of W, last block first, which is the one that needs masking. A block goes
// through registers into shared memory, V transposed on the way; while the warps multiply, the next
// one is on its way to the registers.
//
// Source: Dao 2023 (FlashAttention-2): a warp keeps whole rows, so that softmax needs no shared
// memory.
#include "attention_internal.h"
#include "attention_prefill_work.cuh"
#include "launch.cuh"
#include "matrix_tile.cuh"
#include "pair.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int kWarpRows = 16;
constexpr int kWarps = kPrefillRows / kWarpRows;
// Below any score; finite, so that the scores of a row with no visible key so far, all -inf, weigh
// exp2(-inf) = 0.
constexpr float kLowest = -1e30F;

// Has what depends on `value` computed anew from here on: addresses kept over the loop would take
// registers that the accumulators need.
__device__ __forceinline__ void forget([[maybe_unused]] int& value) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(value));
#endif
}

template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
class MatrixPrefill {
 public:
  using Tile = MatrixTile<kUnit, W, T>;
  static constexpr int kKeys = W;  // of a block
  static constexpr int kThreads = kWarps * W;
  static constexpr int kKeyPieces = kHeadDim / 8;  // of 16 bytes, in a row of K
  static constexpr int kDimPieces = kKeys / 8;     // in a row of V^T
  // MFMA's operands leave registers for q; of the others every lane has more of them.
  static constexpr bool kKeepsQ = kUnit == MatrixUnit::kMfma;
  struct Shared {
    uint4 k[kKeys * kKeyPieces];     // [keys, head_dim]
    uint4 v[kHeadDim * kDimPieces];  // [head_dim, keys]
    uint4 q[kKeepsQ ? 1 : kPrefillRows * kKeyPieces];
  };

  __device__ MatrixPrefill(Shared& shared, const PrefillParams& params, const PrefillWork& work)
      : shared_(shared),
        params_(params),
        work_(work),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % W),
        first_row_(thread_ / W * kWarpRows) {
#pragma unroll
    for (int s = 0; s < Tile::kColumns; ++s) {
      position_[s] = work_.position(first_row_ + Tile::column(lane_, s));
      max_[s] = kLowest;
      sum_[s] = 0.0F;
    }
  }

  __device__ __forceinline__ void run() {
    const int last = (work_.tile.kv_end - 1) / kKeys;
    find_pages(last);
    fetch(last);
    load_q();
    for (int block = last; block >= 0; --block) {
      forget(lane_);
      forget(thread_);
      if (block < last) __syncthreads();  // all have multiplied the block before
      put();
      __syncthreads();
      if (block > 0) fetch(block - 1);
      multiply_keys();
      mask(block);
      float correction[Tile::kColumns];
      weigh(correction);
      multiply_values(correction);
    }
    store();
  }

 private:
  // A thread copies 8 dimensions of two neighbouring keys at a time.
  static constexpr int kPatches = kKeys / 2 * kKeyPieces;
  static constexpr int kCopies = (kPatches + kThreads - 1) / kThreads;
  struct Patch {
    uint32_t k[2][4];
    uint32_t v[2][4];
  };

  // Where a piece lies, so that what lanes access together falls into different banks.
  __device__ static int place_in_k(int key, int piece) {
    const int place = kKeyPieces % 8 == 0 ? piece ^ key % 8 : piece / 4 * 4 + (piece ^ key / 2) % 4;
    return key * kKeyPieces + place;
  }
  __device__ static int place_in_v(int dim, int piece) {
    const int place =
        kDimPieces == 8 ? piece ^ (dim + dim / 8) % 8 : piece ^ (dim / 2 + dim / 8) % 4;
    return dim * kDimPieces + place;
  }

  __device__ int first_key(int patch) const { return patch / kKeyPieces * 2; }
  // Page numbers of a block's patches.
  __device__ __forceinline__ void find_pages(int block) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int key = block * kKeys + first_key(thread_ + i * kThreads);
      const int page = key < work_.tile.kv_end ? key >> params_.page_shift : 0;
      pages_[i] = params_.page_ids[work_.tile.first_page + page];
    }
  }
  // Fetches a block whose pages are known, and the pages of the one before it. What is not live
  // becomes 0.
  __device__ __forceinline__ void fetch(int block) {
    const int page_mask = (1 << params_.page_shift) - 1;
    const std::byte* const head =
        params_.pages + (int64_t{work_.kv_head} * (kHeadDim * 2) << params_.page_shift);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int index = thread_ + i * kThreads;
      const int key = block * kKeys + first_key(index);
      const std::byte* const from = head + int64_t{pages_[i]} * params_.page_bytes +
                                    (key & page_mask) * (kHeadDim * 2) + index % kKeyPieces * 16;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool live = key + j < work_.tile.kv_end && index < kPatches;
        load_or_zero(patches_[i].k[j], from + j * (kHeadDim * 2), live);
        load_or_zero(patches_[i].v[j], from + params_.half_bytes + j * (kHeadDim * 2), live);
      }
    }
    if (block > 0) find_pages(block - 1);
  }
  __device__ __forceinline__ static void load_or_zero(uint32_t (&words)[4], const std::byte* from,
                                                      bool live) {
    const uint4 loaded = live ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
    words[0] = loaded.x;
    words[1] = loaded.y;
    words[2] = loaded.z;
    words[3] = loaded.w;
  }

  __device__ __forceinline__ void put() {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int index = thread_ + i * kThreads;
      if (kPatches % kThreads != 0 && index >= kPatches) continue;
      const int key = first_key(index);
      const int piece = index % kKeyPieces;
      const Patch& patch = patches_[i];
#pragma unroll
      for (int j = 0; j < 2; ++j) store_words(&shared_.k[place_in_k(key + j, piece)], patch.k[j]);
#pragma unroll
      for (int d = 0; d < 8; ++d) {
        const uint32_t first = patch.v[0][d / 2];
        const uint32_t second = patch.v[1][d / 2];
        uint4* const row = &shared_.v[place_in_v(piece * 8 + d, key / 8)];
        reinterpret_cast<uint32_t*>(row)[key % 8 / 2] =
            d % 2 == 0 ? lower_halves(first, second) : upper_halves(first, second);
      }
    }
  }

  // Rows that are not live take what is there; nothing of them is written. Each warp its own rows.
  __device__ __forceinline__ void load_q() {
    const T* const q = static_cast<const T*>(params_.q);
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      const auto b = Tile::load_b(lane_, [&](int r, int k) {
        const int row = first_row_ + r;
        const int known = work_.is_live(row) ? row : 0;
        return q + work_.offset(known, params_.q_stride, kHeadDim) + d * 16 + k;
      });
      if constexpr (kKeepsQ) {
        q_[d] = b;
      } else {
        Tile::store_b(lane_, b, [&](int r, int k) { return shared_q(r, d * 16 + k); });
      }
    }
  }
  __device__ __forceinline__ typename Tile::B query(int d) const {
    if constexpr (kKeepsQ) {
      return q_[d];
    } else {
      return Tile::load_b(lane_, [&](int r, int k) { return shared_q(r, d * 16 + k); });
    }
  }
  __device__ T* shared_q(int row, int dim) const {
    return reinterpret_cast<T*>(&shared_.q[place_in_k(first_row_ + row, dim / 8)]) + dim % 8;
  }

  __device__ __forceinline__ void multiply_keys() {
#pragma unroll
    for (auto& scores : scores_) scores = {};
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      const auto b = query(d);
#pragma unroll
      for (int t = 0; t < kKeys / 16; ++t) {
        const auto a = Tile::load_a(lane_, [&](int key, int k) {
          return reinterpret_cast<const T*>(&shared_.k[place_in_k(t * 16 + key, d * 2 + k / 8)]) +
                 k % 8;
        });
        Tile::multiply(scores_[t], a, b);
      }
    }
  }

  __device__ __forceinline__ void mask(int block) {
    const int first = block * kKeys;
    if (first + kKeys - 1 <= work_.position(first_row_)) return;
#pragma unroll
    for (int t = 0; t < kKeys / 16; ++t) {
#pragma unroll
      for (int v = 0; v < 256 / W; ++v) {
        if (first + t * 16 + Tile::row(lane_, v) > position_[Tile::slot(v)])
          scores_[t].values[v] = -INFINITY;
      }
    }
  }

  // Turns scores into weights, in units of log 2: exp2(score * scale - max * scale). Gives what
  // earlier weights must be multiplied by. sum_ covers the lane's own keys only, until store().
  __device__ __forceinline__ void weigh(float (&correction)[Tile::kColumns]) {
    float max[Tile::kColumns];
#pragma unroll
    for (int s = 0; s < Tile::kColumns; ++s) max[s] = max_[s];
#pragma unroll
    for (int t = 0; t < kKeys / 16; ++t) {
#pragma unroll
      for (int v = 0; v < 256 / W; ++v)
        max[Tile::slot(v)] = fmaxf(max[Tile::slot(v)], scores_[t].values[v]);
    }
#pragma unroll
    for (int s = 0; s < Tile::kColumns; ++s) {
#pragma unroll
      for (int lanes = Tile::kSameColumns; lanes < W; lanes *= 2)
        max[s] = fmaxf(max[s], shuffle_xor<W>(max[s], lanes));
      correction[s] = exp2_fast((max_[s] - max[s]) * params_.scale);
      sum_[s] *= correction[s];
      max_[s] = max[s];
    }
#pragma unroll
    for (int t = 0; t < kKeys / 16; ++t) {
#pragma unroll
      for (int v = 0; v < 256 / W; ++v) {
        const int s = Tile::slot(v);
        float& score = scores_[t].values[v];
        score = exp2_fast(fmaf(score, params_.scale, -max[s] * params_.scale));
        sum_[s] += score;
      }
    }
  }

  __device__ __forceinline__ void multiply_values(const float (&correction)[Tile::kColumns]) {
    typename Tile::B weights[kKeys / 16];
#pragma unroll
    for (int t = 0; t < kKeys / 16; ++t) weights[t] = Tile::as_b(lane_, scores_[t]);
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      scale_columns(sums_[d], correction);
#pragma unroll
      for (int t = 0; t < kKeys / 16; ++t) {
        const auto a = Tile::load_a(lane_, [&](int dim, int k) {
          return reinterpret_cast<const T*>(&shared_.v[place_in_v(d * 16 + dim, t * 2 + k / 8)]) +
                 k % 8;
        });
        Tile::multiply(sums_[d], a, weights[t]);
      }
    }
  }

  __device__ __forceinline__ static void scale_columns(typename Tile::C& c,
                                                       const float (&factor)[Tile::kColumns]) {
#pragma unroll
    for (int v = 0; v < 256 / W; ++v) c.values[v] *= factor[Tile::slot(v)];
  }

  __device__ __forceinline__ void store() {
    float inverse[Tile::kColumns];
#pragma unroll
    for (int s = 0; s < Tile::kColumns; ++s) {
#pragma unroll
      for (int lanes = Tile::kSameColumns; lanes < W; lanes *= 2)
        sum_[s] += shuffle_xor<W>(sum_[s], lanes);
      inverse[s] = 1.0F / sum_[s];
    }
    T* const y = static_cast<T*>(params_.y);
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      scale_columns(sums_[d], inverse);
      Tile::store_b(lane_, Tile::as_b(lane_, sums_[d]), [&](int r, int k) {
        const int row = first_row_ + r;
        return work_.is_live(row) ? y + work_.offset(row, params_.y_stride, kHeadDim) + d * 16 + k
                                  : nullptr;
      });
    }
  }

  Shared& shared_;
  const PrefillParams& params_;
  const PrefillWork work_;
  int thread_;
  int lane_;
  const int first_row_;  // of this warp
  int pages_[kCopies];
  Patch patches_[kCopies];
  typename Tile::B q_[kKeepsQ ? kHeadDim / 16 : 1];
  typename Tile::C scores_[kKeys / 16];
  typename Tile::C sums_[kHeadDim / 16];
  // Of each of the lane's rows.
  int position_[Tile::kColumns];
  float max_[Tile::kColumns];
  float sum_[Tile::kColumns];
};

template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
__global__ void __launch_bounds__(kWarps* W) attention_prefill_matrix(const PrefillParams params) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  if constexpr (!has_matrix_unit<kUnit, W>()) {
    refuse_launch<W>();
  } else {
    using Kernel = MatrixPrefill<kUnit, W, T, kHeadDim>;
    ENCORE_GPU_DYNAMIC_SHARED(typename Kernel::Shared, shared);
    wait_for_previous_kernel();
    const int item = static_cast<int>(blockIdx.x);
    if (item >= *params.num_tiles * params.head_groups) return;
    Kernel(*shared, params, PrefillWork::find(params, item)).run();
  }
}

template <MatrixUnit kUnit, int W, typename T, int kHeadDim>
LaunchError launch_for(const PrefillParams& params, int num_blocks, const Launch& launch) {
  return launch_kernel(attention_prefill_matrix<kUnit, W, T, kHeadDim>, num_blocks, kWarps * W,
                       sizeof(typename MatrixPrefill<kUnit, W, T, kHeadDim>::Shared), launch,
                       params);
}

template <MatrixUnit kUnit, int W, typename T>
LaunchError launch_of(const PrefillParams& params, int head_dim, int num_blocks,
                      const Launch& launch) {
  switch (head_dim) {
    case 64:
      return launch_for<kUnit, W, T, 64>(params, num_blocks, launch);
    case 96:
      return launch_for<kUnit, W, T, 96>(params, num_blocks, launch);
    case 128:
      return launch_for<kUnit, W, T, 128>(params, num_blocks, launch);
  }
  return gpuErrorInvalidValue;
}

}  // namespace

LaunchError launch_prefill_matrix(const AttentionShape& shape, const AttentionBounds& bounds,
                                  AttentionPath path, const AttentionArgs& args,
                                  const AttentionWorkspace& workspace, const Launch& launch) {
  const PrefillParams params = prefill_params(shape, args, workspace, path);
  const int num_blocks = max_prefill_tiles(shape, bounds, path) * params.head_groups;
  if (num_blocks == 0) return gpuSuccess;
  const auto launch_unit = [&]<MatrixUnit kUnit, int W>() -> LaunchError {
    if (launch.lanes != W) return gpuErrorInvalidValue;
    return shape.element == Element::kF16
               ? launch_of<kUnit, W, f16>(params, shape.kv.head_dim, num_blocks, launch)
               : launch_of<kUnit, W, bf16>(params, shape.kv.head_dim, num_blocks, launch);
  };
  switch (path) {
#if !defined(ENCORE_GPU_CUDA)
    case AttentionPath::kMfma:
      return launch_unit.template operator()<MatrixUnit::kMfma, 64>();
    case AttentionPath::kWmma:
      return launch_unit.template operator()<MatrixUnit::kWmma, 32>();
#endif
#if !defined(ENCORE_GPU_HIP)
    case AttentionPath::kMma:
      return launch_unit.template operator()<MatrixUnit::kMma, 32>();
#endif
    default:
      return gpuErrorInvalidValue;
  }
}

}  // namespace encore::gpu
