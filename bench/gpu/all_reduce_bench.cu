// All-reduce in a graph, 4 KB to 4 MB of bf16 between two GPUs: the peers' kernel beside NCCL's;
// and what closes a layer's half, a sum and a norm, in one kernel and in two.
//
//   all_reduce_bench
//
// Each graph holds 50 sums in a row; times are of one, medians over 20 replays on rank 0's device,
// both ranks launched from threads of their own. Prints the larger of the two ranks' medians.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cuda_nccl.h"
#include "kernels/gpu/all_reduce.h"
#include "kernels/gpu/norm.h"
#include "peer_memory.h"

namespace {

constexpr int32_t kRanks = 2;
constexpr int32_t kSums = 50;
constexpr int32_t kReplays = 20;
constexpr int64_t kMaxBytes = int64_t{4} << 20;
constexpr int32_t kColumns = 2048;
constexpr float kEps = 1e-5F;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
void check(const encore::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

struct Rank {
  cudaStream_t stream = nullptr;
  void* x = nullptr;
  void* norm = nullptr;
  void* normed = nullptr;
  int32_t* live = nullptr;
  ncclComm_t communicator = nullptr;
};

double median_us(std::vector<float>& times) {
  std::sort(times.begin(), times.end());
  return 1000.0 * times[times.size() / 2] / kSums;
}

using Enqueue = std::function<void(int32_t rank)>;

// Both ranks at once.
double time_sums(std::array<Rank, kRanks>& ranks, const Enqueue& enqueue) {
  std::barrier<> meet(kRanks);
  std::array<double, kRanks> found = {};
  const auto run = [&](int32_t index) {
    Rank& rank = ranks[static_cast<size_t>(index)];
    check(cudaSetDevice(index), "selecting a device");
    enqueue(index);  // once outside capture
    check(cudaStreamSynchronize(rank.stream), "first sum");
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int32_t i = 0; i < kSums; ++i) enqueue(index);
    check(cudaStreamEndCapture(rank.stream, &graph), "capture");
    check(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    std::vector<float> times;
    for (int32_t i = 0; i < kReplays + 3; ++i) {
      meet.arrive_and_wait();
      check(cudaEventRecord(begin, rank.stream), "event");
      check(cudaGraphLaunch(executable, rank.stream), "launch");
      check(cudaEventRecord(end, rank.stream), "event");
      check(cudaEventSynchronize(end), "replay");
      float ms = 0.0F;
      check(cudaEventElapsedTime(&ms, begin, end), "event");
      if (i >= 3) times.push_back(ms);
    }
    found[static_cast<size_t>(index)] = median_us(times);
    check(cudaGraphExecDestroy(executable), "graph");
    check(cudaGraphDestroy(graph), "graph");
  };
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return std::max(found[0], found[1]);
}

}  // namespace

int main() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting devices");
  if (count < kRanks) {
    std::printf("%d GPUs are needed, there are %d\n", kRanks, count);
    return 0;
  }
  encore::gpu::MemoryAccount account;
  auto memory = encore::gpu::PeerMemory::create({0, 1}, kMaxBytes, account);
  check(memory.status());
  auto nccl = encore::cuda::open_nccl();
  check(nccl.status());
  std::array<ncclComm_t, kRanks> communicators = {};
  const std::array<int, kRanks> devices = {0, 1};
  check(encore::gpu::nccl_status(
      *nccl, nccl->init_all(communicators.data(), kRanks, devices.data()), "communicators"));
  std::array<Rank, kRanks> ranks;
  const auto rows = static_cast<int32_t>(kMaxBytes / 2 / kColumns);
  for (int32_t i = 0; i < kRanks; ++i) {
    Rank& rank = ranks[static_cast<size_t>(i)];
    rank.communicator = communicators[static_cast<size_t>(i)];
    check(cudaSetDevice(i), "selecting a device");
    check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "stream");
    check(cudaMalloc(&rank.x, kMaxBytes), "memory");
    check(cudaMemset(rank.x, 0, kMaxBytes), "memory");
    check(cudaMalloc(&rank.norm, kColumns * 2), "memory");
    check(cudaMemset(rank.norm, 0, kColumns * 2), "memory");
    check(cudaMalloc(&rank.normed, kMaxBytes), "memory");
    check(cudaMalloc(&rank.live, sizeof(int32_t)), "memory");
    check(cudaMemcpy(rank.live, &rows, sizeof(rows), cudaMemcpyHostToDevice), "memory");
  }
  std::printf("%10s %12s %12s %12s %14s %14s\n", "bytes", "peers us", "NCCL us", "peers GB/s",
              "with norm us", "sum + norm us");
  const auto sum_and_norm = [&](int32_t i, int32_t size_rows, bool fused) {
    const Rank& rank = ranks[static_cast<size_t>(i)];
    const encore::gpu::LiveRows live{rank.live, size_rows};
    const encore::gpu::Launch launch{rank.stream, true};
    const encore::gpu::PeerSumArgs sum{(*memory)->peers(i), live, rank.x, kColumns};
    const auto run = [](encore::gpu::LaunchError error) {
      check(static_cast<cudaError_t>(error), "sum and norm");
    };
    if (fused) return run(peer_all_reduce_norm({sum, rank.norm, rank.normed, kEps}, launch));
    run(peer_all_reduce(sum, launch));
    run(rms_norm({live, rank.x, kColumns, rank.norm, rank.normed, kColumns, kColumns, kEps},
                 launch));
  };
  for (int64_t bytes = 4096; bytes <= kMaxBytes; bytes *= 2) {
    // The live count is the largest size's: the recorded maximum bounds it.
    const auto size_rows = static_cast<int32_t>(bytes / 2 / kColumns);
    const double peers = time_sums(ranks, [&](int32_t i) {
      const Rank& rank = ranks[static_cast<size_t>(i)];
      check(static_cast<cudaError_t>(encore::gpu::peer_all_reduce(
                {(*memory)->peers(i), {rank.live, size_rows}, rank.x, kColumns},
                {rank.stream, true})),
            "sum");
    });
    const double with_norm = time_sums(ranks, [&](int32_t i) { sum_and_norm(i, size_rows, true); });
    const double apart = time_sums(ranks, [&](int32_t i) { sum_and_norm(i, size_rows, false); });
    const double library = time_sums(ranks, [&](int32_t i) {
      const Rank& rank = ranks[static_cast<size_t>(i)];
      check(encore::gpu::nccl_status(
          *nccl,
          nccl->all_reduce(rank.x, rank.x, static_cast<size_t>(bytes / 2), ncclBfloat16, ncclSum,
                           rank.communicator, rank.stream),
          "NCCL sum"));
    });
    std::printf("%10lld %12.2f %12.2f %12.1f %14.2f %14.2f\n", static_cast<long long>(bytes), peers,
                library, static_cast<double>(bytes) / peers / 1000.0, with_norm, apart);
  }
  return 0;
}
