// One rank's collectives by NCCL or RCCL.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "encore/lowering/collectives.h"
#include "encore/status.h"
#include "rank_peers.h"
#include "vendor.h"

namespace encore::gpu {

// Used by one thread at a time, with the rank's device current.
class LibraryCollectives : public lowering::Collectives {
 public:
  LibraryCollectives(std::shared_ptr<RankPeers> peers, int32_t rank, gpuStream_t stream)
      : peers_(std::move(peers)),
        rank_(static_cast<size_t>(rank)),
        communicator_(peers_->communicator(rank)),
        stream_(stream) {}

  // Runs every kind of call once, in all sizes for which the library may choose another algorithm:
  // what one sets up when it first runs cannot be set up in a capture. All ranks at the same time.
  Status warm_up();

  Status all_reduce(lowering::Matrix x, lowering::Rows rows) override;
  bool has_all_reduce_norm(lowering::Matrix) const override { return false; }
  Status all_reduce_norm(lowering::Matrix x, lowering::Rows rows, const void* norm, float eps,
                         lowering::Matrix normed) override;
  Status all_gather(lowering::Matrix part, lowering::Rows rows, lowering::Matrix whole) override;
  Status health() override;

 private:
  // Whether all_gather() is this class's, and so the library's.
  virtual bool library_gathers() const { return true; }
  Status check_not_aborted() const;
  Status sum(void* x, size_t count);
  Status gather(const float* part, float* whole, size_t count);

  std::shared_ptr<RankPeers> peers_;
  size_t rank_;
  ncclComm_t communicator_;
  gpuStream_t stream_;
};

}  // namespace encore::gpu
