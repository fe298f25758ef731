#include "fibers.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

// Pushes the registers that a call must keep, leaves the stack pointer in *from, goes on at `to`.
asm(R"(
.text
.globl encore_switch_stack
.type encore_switch_stack, @function
encore_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size encore_switch_stack, .-encore_switch_stack
)");
extern "C" void encore_switch_stack(void** from, void* to);

namespace encore::gpu::on_cpu {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxSharedBytes = size_t{227} << 10;

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kEnded };

struct Fiber {
  std::unique_ptr<std::byte[]> stack;
  void* stack_pointer = nullptr;
  State state = State::kEnded;
  dim3 thread;
  LaneSet mask = 0;        // kInWarp: lanes it waits for
  void* record = nullptr;  // kInWarp
};

// The block that runs.
struct Block {
  std::vector<Fiber> fibers;
  size_t num_threads = 0;
  size_t lanes = 0;  // of a warp
  size_t num_ended = 0;
  size_t num_at_barrier = 0;
  int votes = 0;    // of block_or, so far
  int outcome = 0;  // of the last block_or
  size_t current = 0;
  bool backwards = false;     // the direction in which fibers run, this time round
  uint32_t random = 0;        // of the block: where each round begins, and its direction
  void* scheduler = nullptr;  // its stack pointer
  const std::function<void()>* body = nullptr;
  std::unique_ptr<std::byte[]> shared_storage;
  std::byte* shared = nullptr;
};
Block block;
std::mutex block_mutex;  // __shared__ variables are the process's

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "kernel on CPU: %s: block (%u, %u, %u), thread (%u, %u, %u)\n", what,
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  std::abort();
}

void leave_fiber() {
  encore_switch_stack(&block.fibers[block.current].stack_pointer, block.scheduler);
}

// Lets all go on if every thread that has not ended is at the barrier.
void open_barrier_if_complete() {
  if (block.num_at_barrier == 0 || block.num_at_barrier + block.num_ended < block.num_threads) {
    return;
  }
  for (size_t i = 0; i < block.num_threads; ++i) {
    if (block.fibers[i].state == State::kAtBarrier) block.fibers[i].state = State::kReady;
  }
  block.num_at_barrier = 0;
  block.outcome = block.votes;
  block.votes = 0;
}

void fiber_main() {
  (*block.body)();
  block.fibers[block.current].state = State::kEnded;
  ++block.num_ended;
  open_barrier_if_complete();
  leave_fiber();
}

// A stack from which the first switch returns into fiber_main, aligned as after a call.
void prepare(Fiber* fiber) {
  if (fiber->stack == nullptr) {
    fiber->stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  }
  auto top = reinterpret_cast<uintptr_t>(fiber->stack.get() + kStackBytes) & ~uintptr_t{15};
  auto* words = reinterpret_cast<uintptr_t*>(top);
  words[-1] = 0;
  words[-2] = reinterpret_cast<uintptr_t>(&fiber_main);
  for (int i = 3; i <= 8; ++i) words[-i] = 0;
  fiber->stack_pointer = words - 8;
  fiber->state = State::kReady;
}

// Runs the warp's fibers that are ready, once each. Whether there were any.
bool run_warp(size_t first) {
  const size_t lanes = std::min(block.lanes, block.num_threads - first);
  bool progress = false;
  for (size_t i = 0; i < lanes; ++i) {
    block.current = first + (block.backwards ? lanes - 1 - i : i);
    Fiber& fiber = block.fibers[block.current];
    if (fiber.state != State::kReady) continue;
    progress = true;
    threadIdx = fiber.thread;
    encore_switch_stack(&block.scheduler, fiber.stack_pointer);
  }
  return progress;
}

// Runs each warp in turn until it can only wait for others. Whether any did something.
bool run_round() {
  block.random = block.random * 1664525U + 1013904223U;  // Numerical Recipes' generator
  block.backwards = (block.random >> 31) != 0;
  const size_t warps = (block.num_threads + block.lanes - 1) / block.lanes;
  const size_t begin = (block.random >> 8) % warps;
  bool progress = false;
  for (size_t i = 0; i < warps; ++i) {
    const size_t warp = (begin + (block.backwards ? warps - i : i)) % warps;
    while (run_warp(warp * block.lanes)) progress = true;
  }
  return progress;
}

void run_block(dim3 size) {
  block.num_ended = 0;
  block.num_at_barrier = 0;
  for (size_t i = 0; i < block.num_threads; ++i) {
    const auto index = static_cast<unsigned>(i);
    block.fibers[i].thread = {index % size.x, index / size.x % size.y, index / (size.x * size.y)};
    prepare(&block.fibers[i]);
  }
  block.random = blockIdx.x + 7919 * blockIdx.y + 104729 * blockIdx.z;
  while (block.num_ended < block.num_threads) {
    if (!run_round()) fail("some threads wait for others that never come");
  }
}

size_t first_of_warp() { return block.current / block.lanes * block.lanes; }

// The records of the lanes of `mask` in the caller's warp, once all that exist have come; else
// nothing.
std::optional<std::array<void*, kMaxLanes>> records_if_complete(LaneSet mask) {
  std::array<void*, kMaxLanes> records{};
  const size_t first = first_of_warp();
  for (size_t i = 0; i < block.lanes; ++i) {
    const size_t lane = block.backwards ? i : block.lanes - 1 - i;  // the one that comes last first
    if (first + lane >= block.num_threads || (mask >> lane & 1U) == 0) continue;
    const Fiber& fiber = block.fibers[first + lane];
    if (fiber.state == State::kEnded) fail("a lane left before its warp's operation");
    if (fiber.state != State::kInWarp || fiber.mask != mask) return std::nullopt;
    records[lane] = fiber.record;
  }
  return records;
}

}  // namespace

void run_grid(dim3 grid, dim3 size, size_t shared_bytes, int lanes,
              const std::function<void()>& thread) {
  const std::lock_guard lock(block_mutex);
  if (lanes != 32 && lanes != 64) fail("a warp has 32 or 64 lanes");
  block.lanes = static_cast<size_t>(lanes);
  block.num_threads = size_t{size.x} * size.y * size.z;
  if (block.num_threads == 0 || block.num_threads > kMaxThreads) fail("bad number of threads");
  if (size_t{grid.x} * grid.y * grid.z == 0) fail("empty grid");
  if (grid.y > 65535 || grid.z > 65535) fail("grid.y or grid.z is above 65535");
  if (shared_bytes > kMaxSharedBytes) fail("too much shared memory");
  if (block.fibers.size() < block.num_threads) block.fibers.resize(block.num_threads);
  constexpr size_t kAlign = 1024;
  block.shared_storage = std::make_unique_for_overwrite<std::byte[]>(shared_bytes + kAlign);
  const auto address = reinterpret_cast<uintptr_t>(block.shared_storage.get());
  block.shared = block.shared_storage.get() + (kAlign - address % kAlign) % kAlign;
  block.body = &thread;
  blockDim = size;
  gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(block.shared, 0xCD, shared_bytes);
        run_block(size);
      }
    }
  }
}

std::byte* dynamic_shared() { return block.shared; }

int num_lanes() { return static_cast<int>(block.lanes); }
int lane() { return static_cast<int>(block.current % block.lanes); }

void refuse_launch(int lanes) {
  const std::string what = "a kernel for warps of " + std::to_string(lanes) +
                           " lanes, launched on a device of " + std::to_string(num_lanes());
  fail(what.c_str());
}

void block_barrier() {
  block.fibers[block.current].state = State::kAtBarrier;
  ++block.num_at_barrier;
  open_barrier_if_complete();
  leave_fiber();
}

int block_or(int predicate) {
  if (predicate != 0) block.votes = 1;
  block_barrier();
  return block.outcome;
}

void warp_together(LaneSet mask, void* record, const std::function<void(void**)>& combine) {
  Fiber& self = block.fibers[block.current];
  if (block.lanes < kMaxLanes) mask &= (LaneSet{1} << block.lanes) - 1;
  if ((mask >> lane() & 1U) == 0) fail("a lane outside the mask of a warp operation");
  self.state = State::kInWarp;
  self.mask = mask;
  self.record = record;
  const auto records = records_if_complete(mask);
  if (!records) return leave_fiber();
  auto lanes = *records;
  combine(lanes.data());
  const size_t first = first_of_warp();
  for (size_t i = 0; i < block.lanes; ++i) {
    if (lanes[i] != nullptr) block.fibers[first + i].state = State::kReady;
  }
}

}  // namespace encore::gpu::on_cpu
