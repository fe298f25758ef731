// Collectives of the GPUs of one process: own kernels for short messages and for logits, NCCL for
// long sums.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "encore/lowering/collectives.h"
#include "encore/status.h"
#include "nccl_library.h"
#include "peer_memory.h"

namespace encore::cuda {

// What the ranks share: a communicator for each, and the memory that they meet in. Outlives their
// Collectives and every graph captured with them.
class CudaPeers {
 public:
  // Rank r is on device ordinals[r], one rank a device.
  // Errors: kUnavailable without NCCL, or if two devices cannot reach each other; kOutOfMemory;
  // kInternal from NCCL.
  static Result<std::shared_ptr<CudaPeers>> create(std::vector<int32_t> ordinals,
                                                   gpu::MemoryAccount& account);
  ~CudaPeers();
  CudaPeers(const CudaPeers&) = delete;
  CudaPeers& operator=(const CudaPeers&) = delete;

  int32_t num_ranks() const { return static_cast<int32_t>(communicators_.size()); }
  // Sums of up to so many bytes go through the peers' kernel.
  static int64_t one_shot_bytes(int32_t num_ranks);

  // The rank's own, for work on `stream` of its device. Called for all ranks at the same time, each
  // on a thread of its own, since NCCL must run once before it is captured. `overlap` as in
  // gpu::Launch.
  static Result<std::shared_ptr<lowering::Collectives>> collectives(
      std::shared_ptr<CudaPeers> peers, int32_t rank, cudaStream_t stream, bool overlap);

  // Ends all waiting, on every device and in NCCL. Any thread.
  void abort();
  bool aborted() const { return aborted_.load(); }

  const NcclFunctions& nccl() const { return nccl_; }
  ncclComm_t communicator(int32_t rank) const { return communicators_[static_cast<size_t>(rank)]; }
  gpu::Peers peers(int32_t rank) const { return memory_->peers(rank); }

 private:
  explicit CudaPeers(const NcclFunctions& nccl) : nccl_(nccl) {}

  NcclFunctions nccl_;
  std::unique_ptr<gpu::PeerMemory> memory_;
  std::vector<ncclComm_t> communicators_;
  std::atomic<bool> aborted_{false};
};

}  // namespace encore::cuda
