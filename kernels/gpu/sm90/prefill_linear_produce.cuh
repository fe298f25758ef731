// The thread that keeps the ring of a prefill product full.
#pragma once

#include "launch.cuh"
#include "sm90/barrier.cuh"
#include "sm90/prefill_linear_shape.cuh"
#include "sm90/tma.cuh"

namespace encore::gpu {

// As load_tile_2d(), to the same place in all blocks of the cluster that `peers` has a bit for; the
// barrier at `full` of each is told.
__device__ inline void load_tile_to_peers(uint32_t to, const CUtensorMap* map, uint64_t* full,
                                          int x, int y, uint16_t peers) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y), "h"(peers)
      : "memory");
}
__device__ inline void load_tile_alone(uint32_t to, const CUtensorMap* map, uint64_t* full, int x,
                                       int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(shared_address(full)), "r"(x), "r"(y)
      : "memory");
}

// Every block of a cluster walks the same super tiles, so that its part of an operand is what its
// peers wait for. A stage is theirs again once all consumers of all of them have said so.
template <typename S>
class PrefillProducer {
 public:
  __device__ PrefillProducer(const CUtensorMap* w_map, const CUtensorMap* x_map,
                             const PrefillParams& p, uint32_t ring, PrefillBarriers* barriers,
                             int rank)
      : w_map_(w_map),
        x_map_(x_map),
        p_(p),
        ring_(ring),
        barriers_(barriers),
        place_(p, rank),
        first_k_(place_.slice * p.k_steps * kPrefillStepK) {
    for (int column = 0; column < p.column_blocks; ++column) {
      x_peers_ |= 1U << prefill_rank(p, place_.row, column, place_.slice);
    }
    for (int row = 0; row < p.row_blocks; ++row) {
      w_peers_ |= 1U << prefill_rank(p, row, place_.column, place_.slice);
    }
  }

  __device__ void run() {
    const int head = PrefillWalk::one_row(p_) ? min(S::kStages, p_.k_steps) : 0;
    load_head(head);
    wait_for_previous_kernel();
    int loaded = 0;  // the head's weights are on their way
    PrefillStage<S> at;
    for (PrefillWalk walk(p_, prefill_live(p_)); !walk.done(); walk.next()) {
      for (int step = 0; step < p_.k_steps; ++step, at.advance()) {
        if (loaded < head) {
          ++loaded;
        } else {
          barrier_wait_cluster(&barriers_->empty[at.stage], at.parity ^ 1U);
          load_w(at.stage, walk.column(), step);
        }
        load_x(at.stage, walk.row(), step);
      }
    }
    release_next_kernel();
  }

 private:
  // Weights of the ring's first filling.
  __device__ void load_head(int head) const {
    if (head == 0) return;
    const PrefillWalk walk(p_, p_.m);
    for (int step = 0; step < head; ++step) load_w(step, walk.column(), step);
  }

  // Also promises the whole stage. A half is the cluster row's part: row_blocks is 1 or 2.
  __device__ void load_w(int stage, int column, int step) const {
    barrier_expect(&barriers_->full[stage], S::kStageBytes);
    const uint32_t to = ring_ + stage * S::kStageBytes + kPrefillXBytes;
    for (int half = place_.row; half < 2; half += p_.row_blocks) {
      const int tile = (column + place_.column) * S::kOutTileN;
      const int row = S::kSilu ? half * p_.out_n + tile : tile + half * (S::kTileN / 2);
      load(to + half * S::kHalfBytes, w_map_, stage, step, row, w_peers_, p_.row_blocks);
    }
  }
  __device__ void load_x(int stage, int row, int step) const {
    const int rows = kPrefillTileM / p_.column_blocks;
    load(ring_ + stage * S::kStageBytes + place_.column * rows * kPrefillRowBytes, x_map_, stage,
         step, (row + place_.row) * kPrefillTileM + place_.column * rows, x_peers_,
         p_.column_blocks);
  }
  __device__ void load(uint32_t to, const CUtensorMap* map, int stage, int step, int row,
                       uint32_t peers, int num_peers) const {
    const int k = first_k_ + step * kPrefillStepK;
    uint64_t* full = &barriers_->full[stage];
    if (num_peers == 1) {
      load_tile_alone(to, map, full, k, row);
    } else {
      load_tile_to_peers(to, map, full, k, row, static_cast<uint16_t>(peers));
    }
  }

  const CUtensorMap* w_map_;
  const CUtensorMap* x_map_;
  const PrefillParams& p_;
  const uint32_t ring_;
  PrefillBarriers* const barriers_;
  const PrefillPlace place_;
  const int first_k_;
  uint32_t x_peers_ = 0;
  uint32_t w_peers_ = 0;
};

}  // namespace encore::gpu
