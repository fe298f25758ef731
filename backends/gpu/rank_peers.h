// Collectives of the GPUs of one process: by NCCL or RCCL, or, where the GPUs reach each other's
// memory, own kernels for short messages and for logits and the library for long sums.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "encore/lowering/collectives.h"
#include "encore/status.h"
#include "nccl_library.h"
#include "peer_memory.h"
#include "vendor.h"

namespace encore::gpu {

// What the ranks share: a communicator for each, and the memory in which they meet for own kernels.
// Outlives their Collectives and every graph captured with them.
class RankPeers {
 public:
  // Who computes short sums, and gathers logits.
  enum class Kernels { kOwn, kLibrary };

  // Rank r is on device ordinals[r], one rank a device.
  // Errors: kUnavailable if two devices cannot reach each other, for own kernels; kOutOfMemory;
  // kInternal from the library.
  static Result<std::shared_ptr<RankPeers>> create(const NcclFunctions& nccl, Kernels kernels,
                                                   std::vector<int32_t> ordinals,
                                                   MemoryAccount& account);
  ~RankPeers();
  RankPeers(const RankPeers&) = delete;
  RankPeers& operator=(const RankPeers&) = delete;

  int32_t num_ranks() const { return static_cast<int32_t>(communicators_.size()); }
  // Sums of up to so many bytes go through own kernels, if there are any.
  static int64_t one_shot_bytes(int32_t num_ranks);

  // The rank's own, for work on `stream` of its device. Called for all ranks at the same time, each
  // on a thread of its own, since the library must run once before it is captured. `overlap` as in
  // Launch.
  static Result<std::shared_ptr<lowering::Collectives>> collectives(
      const std::shared_ptr<RankPeers>& peers, int32_t rank, gpuStream_t stream, bool overlap);

  // Ends all waiting, on every device and in the library. Any thread.
  void abort();
  bool aborted() const { return aborted_.load(); }

  const NcclFunctions& nccl() const { return nccl_; }
  ncclComm_t communicator(int32_t rank) const { return communicators_[static_cast<size_t>(rank)]; }
  // Null if the library does it all.
  const PeerMemory* memory() const { return memory_.get(); }

 private:
  explicit RankPeers(const NcclFunctions& nccl) : nccl_(nccl) {}

  NcclFunctions nccl_;
  std::unique_ptr<PeerMemory> memory_;
  std::vector<ncclComm_t> communicators_;
  std::atomic<bool> aborted_{false};
};

}  // namespace encore::gpu
