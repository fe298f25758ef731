// From a block's sums to results: the parts of a tile exchange sums, and owners add and store.
//
// Of a group of 8 columns a thread holds two columns of two rows, 8 apart, as wgmma.cuh says.
#pragma once

#include "sm90/barrier.cuh"
#include "sm90/split_linear_shape.cuh"

namespace encore::gpu {

template <typename S>
class SplitFinish {
 public:
  using Sums = typename TileMultiplier<S>::Sums;

  // `received`: this block's buffer, in every block at the same place. Until then no sums may come.
  __device__ SplitFinish(const SplitParams& p, const SplitPlace& place, float4* received,
                         SplitBarriers* barriers, int live)
      : p_(p),
        part_(place.part),
        received_(received + threadIdx.x),
        barriers_(barriers),
        live_(live),
        num_groups_(S::first_group(part_ + 1) - S::first_group(part_)),
        row_(static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4),
        column_(place.tile * S::kTileN + 8 * S::first_group(part_) +
                static_cast<int>(threadIdx.x) % 4 * 2) {
#pragma unroll
    for (int i = 0; i < S::kMostGroups; ++i) read_before(i);  // answered under the exchange
  }

  // Every group to its owner, be it this block. All blocks of the cluster must be done with their
  // rings.
  __device__ void send(const Sums& sums) const {
#pragma unroll
    for (int owner = 0; owner < S::kParts; ++owner) {
      const uint32_t barrier = peer_address(&barriers_->received, owner);
      const uint32_t to = peer_address(received_ + at(part_, 0), owner);
#pragma unroll
      for (int group = S::first_group(owner); group < S::first_group(owner + 1); ++group) {
        send_to_peer(to + (group - S::first_group(owner)) * S::kSumBytes, barrier,
                     &sums[4 * group]);
      }
    }
  }

  // What this block owns.
  __device__ void store() const {
    barrier_wait_cluster(&barriers_->received, 0);
#pragma unroll
    for (int i = 0; i < S::kMostGroups; ++i) {
      if (i < num_groups_ && column(i) < p_.n) store_group(i);
    }
  }

 private:
  // Where this thread's sums lie: [part of k][group of the owner][thread].
  __device__ static int at(int part, int i) { return (part * S::kMostGroups + i) * kTileConsumers; }
  __device__ int column(int i) const { return column_ + 8 * i; }
  __device__ bf16* y_at(int half, int i) const {
    return p_.y + static_cast<size_t>(row_ + 8 * half) * p_.n + column(i);
  }
  __device__ bool is_live(int half) const { return row_ + 8 * half < live_; }

  __device__ void read_before(int i) {
    bias_[i] = 0;
    if (i >= num_groups_ || column(i) >= p_.n) return;
    if (p_.bias != nullptr) bias_[i] = *reinterpret_cast<const uint32_t*>(p_.bias + column(i));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      old_[half][i] =
          p_.accumulate && is_live(half) ? *reinterpret_cast<const uint32_t*>(y_at(half, i)) : 0;
    }
  }

  // In order of parts.
  __device__ float4 sum(int i) const {
    float4 total = received_[at(0, i)];
#pragma unroll
    for (int part = 1; part < S::kParts; ++part) {
      const float4 more = received_[at(part, i)];
      total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
    }
    return total;
  }

  __device__ static float2 unpack(uint32_t pair) {
    return __bfloat1622float2(*reinterpret_cast<const bf16x2*>(&pair));
  }

  __device__ void store_group(int i) const {
    const float4 total = sum(i);
    const float2 bias = unpack(bias_[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!is_live(half)) continue;
      const float2 old = unpack(old_[half][i]);
      const float low = (half == 0 ? total.x : total.z) + bias.x + old.x;
      const float high = (half == 0 ? total.y : total.w) + bias.y + old.y;
      *reinterpret_cast<bf16x2*>(y_at(half, i)) = __floats2bfloat162_rn(low, high);
    }
  }

  const SplitParams& p_;
  const int part_;
  float4* const received_;  // this thread's
  SplitBarriers* const barriers_;
  const int live_;
  const int num_groups_;
  const int row_;
  const int column_;  // the thread's first
  // What is added, pairs of bf16.
  uint32_t bias_[S::kMostGroups];
  uint32_t old_[2][S::kMostGroups];
};

}  // namespace encore::gpu
