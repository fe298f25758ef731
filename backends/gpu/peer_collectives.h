// One rank's collectives where the ranks' devices reach each other's memory.
#pragma once

#include <memory>

#include "encore/lowering/collectives.h"
#include "encore/status.h"
#include "kernels/gpu/all_reduce.h"
#include "library_collectives.h"

namespace encore::gpu {

// Own kernels for short sums and for logits, the library for long sums.
class PeerCollectives final : public LibraryCollectives {
 public:
  // `overlap` as in Launch. REQUIRES: peers->memory() is not null.
  PeerCollectives(const std::shared_ptr<RankPeers>& peers, int32_t rank, gpuStream_t stream,
                  bool overlap)
      : LibraryCollectives(peers, rank, stream),
        own_(peers->memory()->peers(rank)),
        launch_{stream, overlap} {}

  Status all_reduce(lowering::Matrix x, lowering::Rows rows) override;
  bool has_all_reduce_norm(lowering::Matrix x) const override { return is_short(x); }
  Status all_reduce_norm(lowering::Matrix x, lowering::Rows rows, const void* norm, float eps,
                         lowering::Matrix normed) override;
  Status all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) override;

 private:
  bool library_gathers() const override { return false; }
  bool is_short(lowering::Matrix x) const;
  PeerSumArgs sum_of(lowering::Matrix x, lowering::Rows rows) const;

  Peers own_;
  Launch launch_;
};

}  // namespace encore::gpu
