// The thread that keeps the ring of a split product full.
#pragma once

#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/split_linear_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

template <typename S>
class SplitProducer {
 public:
  __device__ SplitProducer(const CUtensorMap* w_map, const CUtensorMap* x_map,
                           const SplitPlace& place, uint32_t ring, SplitBarriers* barriers)
      : w_map_(w_map),
        x_map_(x_map),
        place_(place),
        ring_(ring),
        barriers_(barriers),
        head_(min(S::kStages, place.num_steps)) {}

  // Weights of the ring's first filling: they depend on no kernel.
  __device__ void load_head() const {
    for (int step = 0; step < head_; ++step) load_w(step, step);
  }

  // All else.
  __device__ void run() const {
    wait_for_previous_kernel();
    release_next_kernel();  // its blocks take the places of those that end
    RingPlace<S> at;
    for (int step = 0; step < place_.num_steps; ++step, at.advance()) {
      if (step >= head_) {
        barrier_wait(&barriers_->empty[at.stage], at.parity ^ 1U);
        load_w(at.stage, step);
      }
      load_x(at.stage, step);
    }
  }

 private:
  // Also promises the whole stage.
  __device__ void load_w(int stage, int step) const {
    uint64_t* full = &barriers_->full[stage];
    barrier_expect(full, S::kStageBytes);
    load_tile_2d(ring_ + stage * S::kStageBytes + kTileXBytes, w_map_, full,
                 (place_.first_step + step) * kTileStepK, place_.tile * S::kTileN, w_policy_);
  }

  __device__ void load_x(int stage, int step) const {
    load_tile_2d(ring_ + stage * S::kStageBytes, x_map_, &barriers_->full[stage],
                 (place_.first_step + step) * kTileStepK, 0);
  }

  const CUtensorMap* w_map_;
  const CUtensorMap* x_map_;
  const SplitPlace& place_;
  const uint32_t ring_;
  SplitBarriers* const barriers_;
  const int head_;                                  // steps of the first filling
  const uint64_t w_policy_ = evict_first_policy();  // read once a product
};

}  // namespace encore::gpu
