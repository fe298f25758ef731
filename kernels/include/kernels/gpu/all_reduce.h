// Sums and gathers over GPUs that reach each other's memory: one kernel a GPU, no host, no barrier.
//
// Each GPU ("rank") owns an inbox that the others write into. Every rank calls the same functions
// in the same order; a call waits, on the device, for the same call of the others. Which call it
// is, is counted on the device, so a captured launch can be replayed any number of times. Calls may
// mix recorded sizes, but the sizes of one call are the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace encore::gpu {

inline constexpr int32_t kMaxPeers = 8;

// How large a rank's inbox is, if sums of up to `max_bytes` of bf16 are to fit: a multiple of 16.
int64_t inbox_bytes(int32_t num_ranks, int64_t max_bytes);

// Where one rank stands among the others. The inboxes and counters are zero before the first call
// of any rank.
struct Peers {
  int32_t rank = 0;
  int32_t num_ranks = 1;         // at most kMaxPeers
  int64_t max_bytes = 0;         // as given to inbox_bytes()
  void* inbox[kMaxPeers] = {};   // each on its rank's device, 256-byte aligned
  uint32_t* counters = nullptr;  // [kNumPeerCounters], on this rank's device
  // Host memory that the device reads: once nonzero, calls end without waiting any longer and leave
  // results undefined.
  const uint32_t* abort = nullptr;
};
inline constexpr int32_t kNumPeerCounters = 4;

// x becomes the sum of all ranks' x, in f32 in the order of the ranks: the same bits on each.
// Each rank sends its rows to every other, value and flag in one store, so that one crossing of the
// link is all it takes: for messages whose time is latency.
struct PeerSumArgs {
  Peers peers;
  LiveRows rows;        // the same live count on all ranks
  void* x = nullptr;    // [rows, columns] bf16; rows.maximum * columns * 2 <= peers.max_bytes
  int32_t columns = 0;  // a multiple of 8
};
LaunchError peer_all_reduce(const PeerSumArgs& args, const Launch& launch);

// The same, and then normed = x / sqrt(mean(x^2) + eps) * norm, row by row: the bits of
// peer_all_reduce() and rms_norm(), in one kernel. One call among the ranks' sums.
struct PeerSumNormArgs {
  PeerSumArgs sum;             // columns at most 16384
  const void* norm = nullptr;  // [columns] bf16
  void* normed = nullptr;      // [rows, columns] bf16
  float eps = 0.0F;
};
LaunchError peer_all_reduce_norm(const PeerSumNormArgs& args, const Launch& launch);

// whole[i] is all ranks' part[i] side by side. Each rank writes its part into everyone's `whole`,
// which lies in memory that the peers reach; addresses may differ from rank to rank.
struct PeerGatherArgs {
  Peers peers;
  LiveRows rows;               // the same live count on all ranks
  const void* part = nullptr;  // [rows, columns] f32
  void* whole = nullptr;       // [rows, columns * num_ranks] f32
  int32_t columns = 0;         // a multiple of 4
};
LaunchError peer_all_gather(const PeerGatherArgs& args, const Launch& launch);

}  // namespace encore::gpu
