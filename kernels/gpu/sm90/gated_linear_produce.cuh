// The thread that keeps the ring of a gated product full.
#pragma once

#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/gated_linear_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

// Both blocks of a cluster walk the same super tiles, so that a block's half of w is what its peer
// waits for. A stage is a block's again once all consumers of both have said so.
template <typename S>
class GatedProducer {
 public:
  __device__ GatedProducer(const CUtensorMap* w_map, const CUtensorMap* x_map, const GatedParams& p,
                           uint32_t ring, TileBarriers* barriers, int rank)
      : w_map_(w_map), x_map_(x_map), p_(p), ring_(ring), barriers_(barriers), rank_(rank) {}

  __device__ void run() {
    const int head = GatedWalk::one_row(p_) ? min(S::kStages, p_.k_steps) : 0;
    load_head(head);
    wait_for_previous_kernel();
    release_next_kernel();  // its blocks take the places of those that end
    int loaded = 0;         // the head's weights are on their way
    RingPlace<S> at;
    for (GatedWalk walk(p_, live_rows(p_.live, p_.m)); !walk.done(); walk.next()) {
      for (int step = 0; step < p_.k_steps; ++step, at.advance()) {
        if (loaded < head) {
          ++loaded;
        } else {
          barrier_wait(&barriers_->empty[at.stage], at.parity ^ 1U);
          load_w(at.stage, walk.column(), step);
        }
        load_tile_2d(ring_ + at.stage * S::kStageBytes, x_map_, &barriers_->full[at.stage],
                     step * kTileStepK, (walk.row() + rank_) * kTileM);
      }
    }
  }

 private:
  // Weights of the ring's first filling.
  __device__ void load_head(int head) const {
    if (head == 0) return;
    const GatedWalk walk(p_, p_.m);
    for (int step = 0; step < head; ++step) load_w(step, walk.column(), step);
  }

  // Also promises the whole stage.
  __device__ void load_w(int stage, int column, int step) const {
    uint64_t* full = &barriers_->full[stage];
    barrier_expect(full, S::kStageBytes);
    const uint32_t to = ring_ + stage * S::kStageBytes + kTileXBytes;
    for (int half = rank_; half < 2; half += p_.row_blocks) {
      const int row = half * p_.out_n + column * S::kOutTileN;
      if (p_.row_blocks == 1) {
        load_tile_2d(to + half * S::kHalfBytes, w_map_, full, step * kTileStepK, row, w_policy_);
      } else {
        load_tile_2d_shared(to + half * S::kHalfBytes, w_map_, full, step * kTileStepK, row, 3U,
                            w_policy_);
      }
    }
  }

  const CUtensorMap* w_map_;
  const CUtensorMap* x_map_;
  const GatedParams& p_;
  const uint32_t ring_;
  TileBarriers* const barriers_;
  const int rank_;
  // Weights that nobody reads again must not drive out what is read in every layer: x, and kernels,
  // whose instructions would come from memory behind all that is asked of it.
  const uint64_t w_policy_ = GatedWalk::one_row(p_) ? evict_first_policy() : evict_normal_policy();
};

}  // namespace encore::gpu
