#include <algorithm>

#include "kernels/gpu/all_reduce.h"
#include "launch.cuh"
#include "pack.cuh"
#include "row_norm.cuh"
#include "vendor.h"
#include "warp.cuh"

namespace encore::gpu {
namespace {

constexpr int32_t kSumThreads = 256;
constexpr int32_t kMaxSumBlocks = 64;
constexpr int32_t kMaxNormThreads = 1024;
constexpr int32_t kGatherThreads = 512;
constexpr int32_t kMaxGatherBlocks = 64;
// Polls between two looks at the host's memory, which takes longer than a hundred polls.
constexpr uint32_t kPollsPerAbortCheck = 512;

enum Counter { kSumCalls, kSumArrivals, kGatherCalls, kGatherArrivals };

// Eight bytes of payload. The flag beside each half is the number of the call: a reader that sees
// both has both values, whatever order the link delivered them in.
struct alignas(16) Line {
  uint32_t low, low_flag, high, high_flag;
};

// An inbox, each part twice: call c uses half c % 2. A rank that starts call c + 2 has finished
// call c + 1, for which every other rank had finished call c: nobody still reads what it
// overwrites.
//   sums       [2, ranks, 2, max_bytes / 16] lines: first and second half of each 16-byte pack
//   addresses  [2, ranks] lines
//   arrivals   [2, ranks, kMaxGatherBlocks] flags
struct Inbox {
  int64_t planes;  // packs of the largest sum
  int32_t ranks;

  __host__ __device__ int64_t address_offset() const { return 2 * ranks * 2 * planes * 16; }
  __host__ __device__ int64_t arrival_offset() const { return address_offset() + 2 * ranks * 16; }
  __host__ __device__ int64_t bytes() const {
    return arrival_offset() + int64_t{2} * ranks * kMaxGatherBlocks * 4;
  }
  __device__ Line* sum_line(void* base, uint32_t half, int32_t from, int32_t plane) const {
    return static_cast<Line*>(base) + ((half * ranks + from) * 2 + plane) * planes;
  }
  __device__ Line* address_line(void* base, uint32_t half, int32_t from) const {
    return reinterpret_cast<Line*>(static_cast<char*>(base) + address_offset()) + half * ranks +
           from;
  }
  __device__ uint32_t* arrival(void* base, uint32_t half, int32_t from, int32_t block) const {
    return reinterpret_cast<uint32_t*>(static_cast<char*>(base) + arrival_offset()) +
           (half * ranks + from) * kMaxGatherBlocks + block;
  }
};

__device__ inline Inbox inbox_of(const Peers& peers) {
  return {peers.max_bytes / 16, peers.num_ranks};
}

#if defined(ENCORE_GPU_CUDA)
__device__ inline void store_line(Line* to, uint32_t low, uint32_t high, uint32_t flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(low), "r"(flag),
               "r"(high)
               : "memory");
}
__device__ inline Line load_line(const Line* from) {
  Line line;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(line.low), "=r"(line.low_flag), "=r"(line.high), "=r"(line.high_flag)
               : "l"(from)
               : "memory");
  return line;
}
__device__ inline void store_release(uint32_t* to, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ inline uint32_t load_acquire(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
#else
// A value and its flag are one 8-byte store, which no link tears.
__device__ inline void store_line(Line* to, uint32_t low, uint32_t high, uint32_t flag) {
  auto* words = reinterpret_cast<volatile uint64_t*>(to);
  words[0] = low | static_cast<uint64_t>(flag) << 32;
  words[1] = high | static_cast<uint64_t>(flag) << 32;
}
__device__ inline Line load_line(const Line* from) {
  const auto* words = reinterpret_cast<const volatile uint64_t*>(from);
  const uint64_t low = words[0];
  const uint64_t high = words[1];
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
}
__device__ inline void store_release(uint32_t* to, uint32_t value) {
  __threadfence_system();
  *static_cast<volatile uint32_t*>(to) = value;
}
__device__ inline uint32_t load_acquire(const uint32_t* from) {
  const uint32_t value = *static_cast<const volatile uint32_t*>(from);
  __threadfence_system();
  return value;
}
#endif

// Whether to go on waiting.
class Patience {
 public:
  __device__ explicit Patience(const uint32_t* abort) : abort_(abort) {}
  __device__ bool left() {
    if (++polls_ % kPollsPerAbortCheck != 0) return true;
    return *static_cast<const volatile uint32_t*>(abort_) == 0;
  }

 private:
  const uint32_t* abort_;
  uint32_t polls_ = 0;
};

__device__ inline bool has(const Line& line, uint32_t flag) {
  return line.low_flag == flag && line.high_flag == flag;
}

__device__ inline Line await_line(const Line* from, uint32_t flag, const uint32_t* abort) {
  Patience patience(abort);
  Line line = load_line(from);
  while (!has(line, flag) && patience.left()) line = load_line(from);
  return line;
}

// Both lines of a pack, looked at together.
__device__ inline uint4 await_pack(const Line* first, const Line* second, uint32_t flag,
                                   const uint32_t* abort) {
  Patience patience(abort);
  Line low = load_line(first);
  Line high = load_line(second);
  while (!(has(low, flag) && has(high, flag)) && patience.left()) {
    low = load_line(first);
    high = load_line(second);
  }
  return make_uint4(low.low, low.high, high.low, high.high);
}

// All blocks read the number of the call, `counters[calls]` + 1, and then say so here, every thread
// of each: the last one prepares the next call.
__device__ inline void leave_number(uint32_t* counters, Counter calls, Counter arrivals,
                                    uint32_t number) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {  // a lone block is spared the fence, which waits for the link
    __threadfence();
    if (atomicAdd(&counters[arrivals], 1U) != gridDim.x - 1) return;
    counters[arrivals] = 0;
  }
  counters[calls] = number;
}

// Adds the two bf16 of a word.
__device__ inline void add_word(float& low, float& high, uint32_t word) {
  low += __uint_as_float(word << 16);
  high += __uint_as_float(word & 0xffff0000U);
}
__device__ inline void add_words(float (&sum)[8], const uint4& words) {
  add_word(sum[0], sum[1], words.x);
  add_word(sum[2], sum[3], words.y);
  add_word(sum[4], sum[5], words.z);
  add_word(sum[6], sum[7], words.w);
}

__device__ inline uint4 load_words(const bf16* x, int64_t pack) {
  return *reinterpret_cast<const uint4*>(x + pack * 8);
}

__global__ void __launch_bounds__(kSumThreads) peer_sum_kernel(PeerSumArgs args) {
  __shared__ void* inboxes[kMaxPeers];
  const Peers& peers = args.peers;
  const Inbox inbox = inbox_of(peers);
  if (threadIdx.x < kMaxPeers) inboxes[threadIdx.x] = peers.inbox[threadIdx.x];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSumThreads;
  const int64_t most_packs = int64_t{args.rows.maximum} * args.columns / 8;
  auto* x = static_cast<bf16*>(args.x);
  wait_for_previous_kernel();
  // Three loads under way at once.
  const uint32_t call = peers.counters[kSumCalls] + 1;
  const int32_t live_rows = *args.rows.live;
  uint4 own = first < most_packs ? load_words(x, first) : uint4{};
  __syncthreads();
  const uint32_t half = call % 2;
  const int64_t live = int64_t{min(live_rows, args.rows.maximum)} * args.columns / 8;
  // One pack is exchanged even if no row is live: the halves' turns rest on every call meeting.
  const int64_t packs = live > 0 ? live : 1;
  for (int64_t i = first; i < packs; i += stride) {
    if (i != first) own = load_words(x, i);
    for (int32_t step = 1; step < peers.num_ranks; ++step) {
      // Each rank starts with another peer.
      void* to = inboxes[(peers.rank + step) % peers.num_ranks];
      store_line(inbox.sum_line(to, half, peers.rank, 0) + i, own.x, own.y, call);
      store_line(inbox.sum_line(to, half, peers.rank, 1) + i, own.z, own.w, call);
    }
  }
  leave_number(peers.counters, kSumCalls, kSumArrivals, call);
  void* own_inbox = inboxes[peers.rank];
  for (int64_t i = first; i < packs; i += stride) {
    float sum[8] = {};
    for (int32_t from = 0; from < peers.num_ranks; ++from) {
      const uint4 words =
          from == peers.rank
              ? load_words(x, i)
              : await_pack(inbox.sum_line(own_inbox, half, from, 0) + i,
                           inbox.sum_line(own_inbox, half, from, 1) + i, call, peers.abort);
      add_words(sum, words);
    }
    if (i < live) store8(x + i * 8, pack_of(sum));
  }
  release_next_kernel();
}

// This thread's packs of a row.
template <int kPacks>
__device__ inline void load_row(uint4 (&own)[kPacks], const bf16* x, int32_t row, int32_t packs) {
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const auto p = static_cast<int32_t>(threadIdx.x + k * blockDim.x);
    own[k] = p < packs ? load_words(x, int64_t{row} * packs + p) : uint4{};
  }
}

// As peer_sum_kernel, a row a block, which then has what it needs to normalise it.
template <int W, int kPacks>
__global__ void __launch_bounds__(kMaxNormThreads) peer_sum_norm_kernel(PeerSumNormArgs args) {
  if (!has_lanes<W>()) return refuse_launch<W>();
  __shared__ void* inboxes[kMaxPeers];
  __shared__ float partial[kPacks * kMaxNormThreads / W];
  const Peers& peers = args.sum.peers;
  const Inbox inbox = inbox_of(peers);
  if (threadIdx.x < kMaxPeers) inboxes[threadIdx.x] = peers.inbox[threadIdx.x];
  const int32_t packs = args.sum.columns / 8;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const auto threads = static_cast<int32_t>(blockDim.x);
  const auto first_row = static_cast<int32_t>(blockIdx.x);
  const auto blocks = static_cast<int32_t>(gridDim.x);
  auto* x = static_cast<bf16*>(args.sum.x);
  Pack8 weights[kPacks] = {};
  load_packs(weights, static_cast<const bf16*>(args.norm), packs);
  wait_for_previous_kernel();
  const uint32_t call = peers.counters[kSumCalls] + 1;
  const int32_t live = min(*args.sum.rows.live, args.sum.rows.maximum);
  // The row too, while these are under way.
  uint4 own[kPacks];
  load_row(own, x, first_row, packs);
  __syncthreads();
  const uint32_t half = call % 2;
  // One row is exchanged even if none is live, as in peer_sum_kernel.
  const int32_t rows = max(live, 1);
  for (int32_t row = first_row; row < rows; row += blocks) {
    if (row != first_row) load_row(own, x, row, packs);
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int32_t p = thread + k * threads;
      if (p >= packs) continue;
      const int64_t i = int64_t{row} * packs + p;
      for (int32_t step = 1; step < peers.num_ranks; ++step) {
        void* to = inboxes[(peers.rank + step) % peers.num_ranks];
        store_line(inbox.sum_line(to, half, peers.rank, 0) + i, own[k].x, own[k].y, call);
        store_line(inbox.sum_line(to, half, peers.rank, 1) + i, own[k].z, own[k].w, call);
      }
    }
  }
  // All blocks run by now, so the next kernel's, which read weights ahead, take no place of theirs.
  release_next_kernel();
  leave_number(peers.counters, kSumCalls, kSumArrivals, call);
  void* own_inbox = inboxes[peers.rank];
  for (int32_t row = first_row; row < rows; row += blocks) {
    load_row(own, x, row, packs);
    Pack8 values[kPacks] = {};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int32_t p = thread + k * threads;
      if (p >= packs) continue;
      const int64_t i = int64_t{row} * packs + p;
      float sum[8] = {};
      for (int32_t from = 0; from < peers.num_ranks; ++from) {
        add_words(sum, from == peers.rank ? own[k]
                                          : await_pack(inbox.sum_line(own_inbox, half, from, 0) + i,
                                                       inbox.sum_line(own_inbox, half, from, 1) + i,
                                                       call, peers.abort));
      }
      values[k] = pack_of(sum);
      if (row < live) store8(x + i * 8, values[k]);
    }
    if (row >= live) return;
    const float inverse = inverse_rms<W>(values, packs, args.eps, partial);
    store_scaled(static_cast<bf16*>(args.normed) + int64_t{row} * packs * 8, values, weights,
                 inverse, packs);
    __syncthreads();  // before the next row's sums
  }
}

struct alignas(16) Floats {
  float values[4];
};

__global__ void __launch_bounds__(kGatherThreads) peer_gather_kernel(PeerGatherArgs args) {
  __shared__ float* whole_of[kMaxPeers];
  wait_for_previous_kernel();
  const Peers& peers = args.peers;
  const Inbox inbox = inbox_of(peers);
  const uint32_t call = peers.counters[kGatherCalls] + 1;
  leave_number(peers.counters, kGatherCalls, kGatherArrivals, call);
  const uint32_t half = call % 2;
  void* own_inbox = peers.inbox[peers.rank];
  const int32_t peer = threadIdx.x;
  if (peer < peers.num_ranks) {
    // Saying where to write is also saying that nobody reads there any more.
    if (blockIdx.x == 0) {
      const auto address = reinterpret_cast<uint64_t>(args.whole);
      store_line(inbox.address_line(peers.inbox[peer], half, peers.rank),
                 static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32), call);
    }
    const Line line = await_line(inbox.address_line(own_inbox, half, peer), call, peers.abort);
    const bool met = has(line, call);
    whole_of[peer] =
        met ? reinterpret_cast<float*>(line.low | static_cast<uint64_t>(line.high) << 32) : nullptr;
  }
  __syncthreads();
  const int64_t packs = int64_t{min(*args.rows.live, args.rows.maximum)} * args.columns / 4;
  const int64_t row_packs = args.columns / 4;
  const auto* part = static_cast<const Floats*>(args.part);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kGatherThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kGatherThreads + threadIdx.x; i < packs;
       i += stride) {
    const Floats value = part[i];
    const int64_t row = i / row_packs;
    const int64_t target = (row * peers.num_ranks + peers.rank) * row_packs + i % row_packs;
    for (int32_t step = 0; step < peers.num_ranks; ++step) {
      float* whole = whole_of[(peers.rank + step) % peers.num_ranks];
      if (whole != nullptr) reinterpret_cast<Floats*>(whole)[target] = value;
    }
  }
  // Block b of every rank waits for block b of the others: together, for everything.
  __threadfence_system();
  __syncthreads();
  if (peer < peers.num_ranks) {
    const auto block = static_cast<int32_t>(blockIdx.x);
    store_release(inbox.arrival(peers.inbox[peer], half, peers.rank, block), call);
    Patience patience(peers.abort);
    const uint32_t* arrival = inbox.arrival(own_inbox, half, peer, block);
    while (load_acquire(arrival) != call && patience.left()) {
    }
  }
  release_next_kernel();
}

bool valid(const Peers& peers) {
  return peers.num_ranks >= 1 && peers.num_ranks <= kMaxPeers && peers.rank >= 0 &&
         peers.rank < peers.num_ranks && peers.counters != nullptr && peers.abort != nullptr;
}

int64_t bytes_of(const PeerSumArgs& sum) { return int64_t{sum.rows.maximum} * sum.columns * 2; }

bool valid(const PeerSumArgs& sum) {
  return valid(sum.peers) && sum.columns > 0 && sum.columns % 8 == 0 && sum.rows.maximum >= 1 &&
         bytes_of(sum) <= sum.peers.max_bytes;
}

int32_t blocks_for(int64_t packs, int32_t threads, int32_t maximum) {
  const int64_t blocks = (packs + threads - 1) / threads;
  return static_cast<int32_t>(blocks < 1 ? 1 : blocks > maximum ? maximum : blocks);
}

}  // namespace

int64_t inbox_bytes(int32_t num_ranks, int64_t max_bytes) {
  return Inbox{max_bytes / 16, num_ranks}.bytes();
}

LaunchError peer_all_reduce(const PeerSumArgs& args, const Launch& launch) {
  if (!valid(args)) return gpuErrorInvalidValue;
  const int32_t blocks = blocks_for(bytes_of(args) / 16, kSumThreads, kMaxSumBlocks);
  return launch_kernel(peer_sum_kernel, dim3(blocks), dim3(kSumThreads), 0, launch, args);
}

LaunchError peer_all_reduce_norm(const PeerSumNormArgs& args, const Launch& launch) {
  const int32_t packs = args.sum.columns / 8;
  if (!valid(args.sum) || packs > 2 * kMaxNormThreads) return gpuErrorInvalidValue;
  const int32_t per_thread = packs > kMaxNormThreads ? 2 : 1;
  const int32_t needed = (packs + per_thread - 1) / per_thread;
  const int32_t threads = whole_warps(needed, launch);
  // Not more than run at the same time: blocks wait for those of other ranks.
  const int32_t blocks = std::min(args.sum.rows.maximum, kMaxSumBlocks);
  return with_lanes(launch, [&]<int W>() {
    auto* kernel = per_thread == 2 ? peer_sum_norm_kernel<W, 2> : peer_sum_norm_kernel<W, 1>;
    return launch_kernel(kernel, dim3(blocks), dim3(threads), 0, launch, args);
  });
}

LaunchError peer_all_gather(const PeerGatherArgs& args, const Launch& launch) {
  if (!valid(args.peers) || args.columns <= 0 || args.columns % 4 != 0 || args.rows.maximum < 1) {
    return gpuErrorInvalidValue;
  }
  const int64_t packs = int64_t{args.rows.maximum} * args.columns / 4;
  const int32_t blocks = blocks_for(packs, kGatherThreads, kMaxGatherBlocks);
  return launch_kernel(peer_gather_kernel, dim3(blocks), dim3(kGatherThreads), 0, launch, args);
}

}  // namespace encore::gpu
