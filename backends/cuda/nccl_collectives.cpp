#include "nccl_collectives.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "gpu_status.h"

namespace encore::cuda {
namespace {

using lowering::Matrix;
using lowering::Rows;

// Every size class for which NCCL may choose another algorithm, up to a step of 8192 tokens: what
// an algorithm sets up when it first runs cannot be set up in a capture.
constexpr int64_t kWarmUpBytes[] = {int64_t{256} << 10, int64_t{1} << 20, int64_t{4} << 20,
                                    int64_t{16} << 20, int64_t{64} << 20};

constexpr std::chrono::milliseconds kAbortWait(300);

class NcclCollectives final : public lowering::Collectives {
 public:
  NcclCollectives(std::shared_ptr<CudaPeers> peers, int32_t rank, cudaStream_t stream, bool overlap)
      : peers_(std::move(peers)),
        own_(peers_->peers(rank)),
        communicator_(peers_->communicator(rank)),
        launch_{stream, overlap} {}

  Status all_reduce(Matrix x, Rows rows) override {
    if (is_short(x)) {
      return launched(gpu::peer_all_reduce(sum_of(x, rows), launch_), "summing over ranks");
    }
    return nccl_sum(x.data, static_cast<size_t>(int64_t{x.rows} * x.columns));
  }

  bool has_all_reduce_norm(Matrix x) const override { return is_short(x); }
  Status all_reduce_norm(Matrix x, Rows rows, const void* norm, float eps, Matrix normed) override {
    const gpu::PeerSumNormArgs args{sum_of(x, rows), norm, normed.data, eps};
    return launched(gpu::peer_all_reduce_norm(args, launch_), "summing over ranks");
  }

  Status all_gather(Matrix part, Rows rows, Matrix whole) override {
    const gpu::PeerGatherArgs args{
        own_, {rows.live, part.rows}, part.data, whole.data, part.columns};
    return launched(gpu::peer_all_gather(args, launch_), "gathering logits from the ranks");
  }

  Status health() override {
    if (peers_->aborted()) return cancelled("the other ranks gave up");
    ncclResult_t state = ncclSuccess;
    const NcclFunctions& nccl = peers_->nccl();
    ENCORE_RETURN_IF_ERROR(
        nccl_status(nccl, nccl.async_error(communicator_, &state), "asking NCCL for errors"));
    return nccl_status(nccl, state, "a collective");
  }

  Status warm_up() {
    cudaStream_t stream = static_cast<cudaStream_t>(launch_.stream);
    void* buffer = nullptr;
    const auto largest = static_cast<size_t>(kWarmUpBytes[std::size(kWarmUpBytes) - 1]);
    ENCORE_RETURN_IF_ERROR(
        gpu::gpu_status(cudaMallocAsync(&buffer, largest, stream), "warming NCCL up"));
    Status status = gpu::gpu_status(cudaMemsetAsync(buffer, 0, largest, stream), "warming NCCL up");
    for (const int64_t bytes : kWarmUpBytes) {
      if (status.ok()) status = nccl_sum(buffer, static_cast<size_t>(bytes / 2));
    }
    if (status.ok()) {
      status = gpu::gpu_status(cudaStreamSynchronize(stream), "warming NCCL up");
    }
    static_cast<void>(cudaFreeAsync(buffer, stream));
    return status;
  }

 private:
  bool is_short(Matrix x) const {
    return int64_t{x.rows} * x.columns * 2 <= CudaPeers::one_shot_bytes(own_.num_ranks);
  }
  gpu::PeerSumArgs sum_of(Matrix x, Rows rows) const {
    return {own_, {rows.live, x.rows}, x.data, x.columns};
  }
  Status launched(gpu::LaunchError error, const char* what) const {
    return gpu::gpu_status(static_cast<cudaError_t>(error), what);
  }
  Status nccl_sum(void* x, size_t count) {
    if (peers_->aborted()) return cancelled("the other ranks gave up");
    const NcclFunctions& nccl = peers_->nccl();
    return nccl_status(nccl,
                       nccl.all_reduce(x, x, count, ncclBfloat16, ncclSum, communicator_,
                                       static_cast<cudaStream_t>(launch_.stream)),
                       "summing over ranks");
  }

  std::shared_ptr<CudaPeers> peers_;
  gpu::Peers own_;
  ncclComm_t communicator_;
  gpu::Launch launch_;
};

}  // namespace

int64_t CudaPeers::one_shot_bytes(int32_t num_ranks) {
  // Every rank sends its message to each other rank, and flags with it.
  return (int64_t{512} << 10) / (num_ranks - 1) / 16 * 16;
}

Result<std::shared_ptr<CudaPeers>> CudaPeers::create(std::vector<int32_t> ordinals,
                                                     gpu::MemoryAccount& account) {
  ENCORE_ASSIGN_OR_RETURN(const NcclFunctions nccl, open_nccl());
  std::shared_ptr<CudaPeers> peers(new CudaPeers(nccl));
  const auto num_ranks = static_cast<int32_t>(ordinals.size());
  ENCORE_ASSIGN_OR_RETURN(peers->memory_,
                          gpu::PeerMemory::create(ordinals, one_shot_bytes(num_ranks), account));
  std::vector<ncclComm_t> communicators(ordinals.size());
  ENCORE_RETURN_IF_ERROR(
      nccl_status(nccl, nccl.init_all(communicators.data(), num_ranks, ordinals.data()),
                  "making communicators for " + std::to_string(num_ranks) + " devices"));
  peers->communicators_ = std::move(communicators);
  return peers;
}

CudaPeers::~CudaPeers() {
  if (aborted()) return;  // NCCL has been told to free them
  for (ncclComm_t communicator : communicators_) {
    static_cast<void>(nccl_.comm_destroy(communicator));
  }
}

Result<std::shared_ptr<lowering::Collectives>> CudaPeers::collectives(
    std::shared_ptr<CudaPeers> peers, int32_t rank, cudaStream_t stream, bool overlap) {
  auto collectives = std::make_shared<NcclCollectives>(std::move(peers), rank, stream, overlap);
  ENCORE_RETURN_IF_ERROR(collectives->warm_up());
  return std::shared_ptr<lowering::Collectives>(std::move(collectives));
}

void CudaPeers::abort() {
  if (aborted_.exchange(true)) return;
  memory_->abort();
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

}  // namespace encore::cuda
