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
  using Groups = typename S::Groups;

  // `received`: this block's buffer, in every block at the same place.
  __device__ SplitFinish(const SplitParams& p, const SplitPlace& place, float4* received,
                         SplitBarriers* barriers)
      : p_(p),
        part_(place.part),
        received_(received + threadIdx.x),
        barriers_(barriers),
        live_(live_rows(p.live, p.m)),
        num_groups_(Groups::first(part_ + 1) - Groups::first(part_)),
        row_(static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4),
        column_(place.tile * S::kTileN + 8 * Groups::first(part_) +
                static_cast<int>(threadIdx.x) % 4 * 2) {
#pragma unroll
    for (int i = 0; i < Groups::kMost; ++i) read_before(i);  // answered under the products
  }

  // Every group to its owner; this block's own are kept.
  __device__ __forceinline__ void send(const Sums& sums) {
#pragma unroll
    for (int owner = 0; owner < S::kParts; ++owner) {
      const uint32_t barrier = peer_address(&barriers_->received, owner);
      const uint32_t to = peer_address(received_ + at(slot_of(part_, owner), 0), owner);
#pragma unroll
      for (int group = Groups::first(owner); group < Groups::first(owner + 1); ++group) {
        const int i = group - Groups::first(owner);
        const float* sum = &sums[4 * group];
        if (owner == part_) {
          own_[i] = {sum[0], sum[1], sum[2], sum[3]};
        } else {
          send_to_peer(to + i * Groups::kSumBytes, barrier, sum);
        }
      }
    }
  }

  // What this block owns.
  __device__ void store() const {
    barrier_wait_cluster(&barriers_->received, 0);
#pragma unroll
    for (int i = 0; i < Groups::kMost; ++i) {
      if (i < num_groups_ && column(i) < p_.n) store_group(i);
    }
  }

 private:
  // Where this thread's sums lie: [slot of a part of k][group of the owner][thread]. The owner's
  // own part has no slot.
  __device__ static int at(int slot, int i) { return (slot * Groups::kMost + i) * kTileConsumers; }
  __device__ static int slot_of(int part, int owner) { return part < owner ? part : part - 1; }
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
    const auto of = [&](int part) {
      return part == part_ ? own_[i] : received_[at(slot_of(part, part_), i)];
    };
    float4 total = of(0);
#pragma unroll
    for (int part = 1; part < S::kParts; ++part) {
      const float4 more = of(part);
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
  const int column_;           // the thread's first
  float4 own_[Groups::kMost];  // this block's part of what it owns
  // What is added, pairs of bf16.
  uint32_t bias_[Groups::kMost];
  uint32_t old_[2][Groups::kMost];
};

}  // namespace encore::gpu
