// Threads of a GPU's thread block as fibers on one thread of the host.
//
// A warp has 32 lanes or 64, as the launch says. It runs until it waits for other warps; then the
// next one runs. What would hang or be undefined on a GPU ends the process with a message: a
// barrier that some threads never reach, or a warp operation of a lane that has left. Each round
// over the warps begins at another one and goes forwards or backwards, as a block's own random
// numbers say, the same in every run: of two warps without a barrier between them now one is far
// ahead, now the other, so that a forgotten barrier shows in some round, in a value that comes too
// early or too late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "device_types.h"

// What a kernel reads to know who it is: those of the fiber that runs.
inline dim3 threadIdx{0, 0, 0};
inline dim3 blockIdx{0, 0, 0};
inline dim3 blockDim;
inline dim3 gridDim;

namespace encore::gpu::on_cpu {

inline constexpr int kMaxLanes = 64;
using LaneSet = uint64_t;  // bit i: lane i
inline constexpr LaneSet kAllLanes = ~LaneSet{0};

// Runs `thread` once for every thread of every block; returns when all have ended. Dynamic shared
// memory and registers hold no zeros by luck: it is filled with 0xCD before each block. Any thread
// of the host; one grid at a time runs in the process.
// REQUIRES: 32 or 64 lanes, 1 to 1024 threads a block, at least one block, shared_bytes at most
// 227 KiB.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, int lanes,
              const std::function<void()>& thread);

// The block's dynamic shared memory, 1024-byte aligned.
std::byte* dynamic_shared();

// Of a warp of this launch, and the caller's among them.
int num_lanes();
int lane();

// Ends the process: the kernel is one for warps of `lanes`, and this launch has others.
[[noreturn]] void refuse_launch(int lanes);

void block_barrier();
// Whether any thread's predicate is not 0, to all threads.
int block_or(int predicate);

// Waits until all lanes of `mask` that the warp has are here, then calls `combine` once with every
// lane's record, kMaxLanes of them (null for a lane that is not in the mask or does not exist).
void warp_together(LaneSet mask, void* record, const std::function<void(void**)>& combine);

template <typename Record, typename Combine>
void warp_together(LaneSet mask, Record& record, Combine combine) {
  warp_together(mask, static_cast<void*>(&record), [&combine](void** lanes) {
    Record* records[kMaxLanes];
    for (int i = 0; i < kMaxLanes; ++i) records[i] = static_cast<Record*>(lanes[i]);
    combine(records);
  });
}

}  // namespace encore::gpu::on_cpu
