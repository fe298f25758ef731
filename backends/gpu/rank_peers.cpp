#include "rank_peers.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "library_collectives.h"
#include "peer_collectives.h"

namespace encore::gpu {
namespace {

constexpr std::chrono::milliseconds kAbortWait(300);

}  // namespace

int64_t RankPeers::one_shot_bytes(int32_t num_ranks) {
  // Every rank sends its message to each other rank, and flags with it.
  return (int64_t{512} << 10) / (num_ranks - 1) / 16 * 16;
}

Result<std::shared_ptr<RankPeers>> RankPeers::create(const NcclFunctions& nccl, Kernels kernels,
                                                     std::vector<int32_t> ordinals,
                                                     MemoryAccount& account) {
  std::shared_ptr<RankPeers> peers(new RankPeers(nccl));
  const auto num_ranks = static_cast<int32_t>(ordinals.size());
  if (kernels == Kernels::kOwn) {
    ENCORE_ASSIGN_OR_RETURN(peers->memory_,
                            PeerMemory::create(ordinals, one_shot_bytes(num_ranks), account));
  }
  std::vector<ncclComm_t> communicators(ordinals.size());
  ENCORE_RETURN_IF_ERROR(
      nccl_status(nccl, nccl.init_all(communicators.data(), num_ranks, ordinals.data()),
                  "making communicators for " + std::to_string(num_ranks) + " devices"));
  peers->communicators_ = std::move(communicators);
  return peers;
}

RankPeers::~RankPeers() {
  if (aborted()) return;  // the library has been told to free them
  for (ncclComm_t communicator : communicators_) {
    static_cast<void>(nccl_.comm_destroy(communicator));
  }
}

Result<std::shared_ptr<lowering::Collectives>> RankPeers::collectives(
    const std::shared_ptr<RankPeers>& peers, int32_t rank, gpuStream_t stream, bool overlap) {
  std::shared_ptr<LibraryCollectives> made;
  if (peers->memory_ != nullptr) {
    made = std::make_shared<PeerCollectives>(peers, rank, stream, overlap);
  } else {
    made = std::make_shared<LibraryCollectives>(peers, rank, stream);
  }
  ENCORE_RETURN_IF_ERROR(made->warm_up());
  return std::shared_ptr<lowering::Collectives>(std::move(made));
}

void RankPeers::abort() {
  if (aborted_.exchange(true)) return;
  if (memory_ != nullptr) memory_->abort();
  // NCCL lets its kernels go at once, but then waits for graphs that are never freed. So nobody
  // waits for it for long: only that a process which ends now does not end in the midst of it.
  std::vector<std::future<void>> ended;
  for (ncclComm_t communicator : communicators_) {
    std::packaged_task<void()> task(
        [abort = nccl_.comm_abort, communicator]() { static_cast<void>(abort(communicator)); });
    ended.push_back(task.get_future());
    std::thread(std::move(task)).detach();
  }
  const auto limit = std::chrono::steady_clock::now() + kAbortWait;
  for (const std::future<void>& one : ended) static_cast<void>(one.wait_until(limit));
}

}  // namespace encore::gpu
