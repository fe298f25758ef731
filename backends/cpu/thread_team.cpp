#include "thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <cstdlib>
#include <new>

namespace encore::cpu {
namespace {

// About 50 us: longer than the host needs between two steps, short enough to idle quietly.
constexpr int32_t kSpins = 2000;
constexpr size_t kAlignment = 64;

void pause_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void pin_to(int32_t processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<size_t>(processor), &mask);
  // Pinning is an optimisation: a container may forbid it, and the work is right without.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask);
}

}  // namespace

void ThreadTeam::AlignedFree::operator()(std::byte* pointer) const { std::free(pointer); }

ThreadTeam::ThreadTeam(std::span<const int32_t> processors, bool pin)
    : barrier_(static_cast<int32_t>(processors.size())), scratch_(processors.size()) {
  try {
    for (size_t i = 1; i < processors.size(); ++i) {
      const int32_t processor = processors[i];
      threads_.emplace_back([this, i, processor, pin]() {
        if (pin) pin_to(processor);
        serve(static_cast<int32_t>(i));
      });
    }
  } catch (...) {
    stop();  // the threads that did start
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::reserve_scratch(size_t bytes) {
  const std::lock_guard<std::mutex> lock(turn_);
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded <= scratch_bytes_) return;
  // All or none: a team that is short of memory goes on with what it has.
  std::vector<std::unique_ptr<std::byte[], AlignedFree>> larger(scratch_.size());
  for (auto& scratch : larger) {
    scratch.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (scratch == nullptr) throw std::bad_alloc();
  }
  scratch_.swap(larger);
  scratch_bytes_ = rounded;
}

int64_t ThreadTeam::scratch_bytes() const {
  return static_cast<int64_t>(scratch_bytes_ * scratch_.size());
}

void ThreadTeam::run(std::span<const PlanNode> nodes) {
  const std::lock_guard<std::mutex> lock(turn_);
  if (nodes.empty()) return;  // without a node there is no barrier to meet at
  nodes_ = nodes;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  execute(0);
}

void ThreadTeam::execute(int32_t index) {
  const kernels::Worker worker{index, size(), &barrier_, scratch_[static_cast<size_t>(index)].get(),
                               scratch_bytes_};
  for (const PlanNode& node : nodes_) {
    node.call(node, worker);
    worker.wait();
  }
}

uint32_t ThreadTeam::await_run(uint32_t seen) const {
  for (int32_t spin = 0; spin < kSpins; ++spin) {
    const uint32_t now = generation_.load(std::memory_order_acquire);
    if (now != seen) return now;
    pause_once();
  }
  generation_.wait(seen, std::memory_order_acquire);
  return generation_.load(std::memory_order_acquire);
}

void ThreadTeam::serve(int32_t index) {
  uint32_t seen = 0;
  while (true) {
    seen = await_run(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    execute(index);
  }
}

}  // namespace encore::cpu
