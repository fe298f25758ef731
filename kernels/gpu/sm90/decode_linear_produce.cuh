// The thread that keeps the ring full.
#pragma once

#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/decode_linear_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

// One thread: walks over (row group, k step) in order. Weights depend on no kernel and are asked
// for first, before the block's other threads can even run; x only once the kernel before is done.
template <typename S>
class DecodeProducer {
 public:
  __device__ DecodeProducer(const CUtensorMap* w_map, const CUtensorMap* x_map,
                            const DecodeParams& p, uint32_t ring, DecodeBarriers* barriers)
      : w_map_(w_map), x_map_(x_map), p_(p), ring_(ring), barriers_(barriers) {
    const int cluster = blockIdx.x / p.split;
    num_clusters_ = gridDim.x / p.split;
    first_k_ = static_cast<int>(blockIdx.x % p.split) * p.k_steps * kStepK;
    const int num_groups = (p.num_row_groups - cluster + num_clusters_ - 1) / num_clusters_;
    total_ = num_groups * p.k_steps;
    head_ = min(p.stages, total_);
    next_ = {cluster, 0, 0};
  }

  // The ring's first filling, weights only.
  __device__ void load_head_weights() {
#pragma unroll 1
    for (int i = 0; i < head_; ++i, advance(next_)) load_weights(next_);
  }

  // All else. Returns when the last copy is issued.
  __device__ void run() {
    const int trigger = max(head_, total_ - p_.trigger_steps);
    if (trigger == head_) release_next_kernel();
    wait_for_previous_kernel();
    Cursor x{next_.group, 0, 0};
#pragma unroll 1
    for (int i = 0; i < head_; ++i) {
      load_x(x);
      ++x.stage;
      if (++x.step == p_.k_steps) x.step = 0;
    }
    uint32_t parity = 0;
#pragma unroll 1
    for (int i = head_; i < total_; ++i) {
      barrier_wait(&barriers_->empty[next_.stage], parity);
      load_weights(next_);
      load_x(next_);
      if (i + 1 == trigger) release_next_kernel();
      advance(next_);
      if (next_.stage == 0) parity ^= 1;
    }
  }

 private:
  struct Cursor {
    int group, step, stage;
  };
  __device__ void advance(Cursor& at) const {
    if (++at.step == p_.k_steps) at.step = 0, at.group += num_clusters_;
    if (++at.stage == p_.stages) at.stage = 0;
  }
  __device__ void load_weights(const Cursor& at) const {
    uint64_t* full = &barriers_->full[at.stage];
    barrier_expect(full, S::kStageBytes);
    const uint32_t to = ring_ + at.stage * S::kStageBytes;
    const int row = at.group * S::kOutTiles * kMmaRows;
#pragma unroll
    for (int box = 0; box < S::kBoxes; ++box) {
      load_tile_2d(to + box * (S::kWeightBytes / S::kBoxes), w_map_, full,
                   first_k_ + at.step * kStepK, row + box * (p_.n / 2), w_policy_);
    }
  }
  __device__ void load_x(const Cursor& at) const {
    load_tile_2d(ring_ + at.stage * S::kStageBytes + S::kWeightBytes, x_map_,
                 &barriers_->full[at.stage], first_k_ + at.step * kStepK, 0, x_policy_);
  }

  const CUtensorMap* w_map_;
  const CUtensorMap* x_map_;
  const DecodeParams& p_;
  uint32_t ring_;
  DecodeBarriers* barriers_;
  const uint64_t w_policy_ = evict_first_policy();  // read once a step
  const uint64_t x_policy_ = evict_last_policy();   // read by every block
  int num_clusters_, first_k_, total_, head_;
  Cursor next_;
};

}  // namespace encore::gpu
