// The persistent threads that execute plans.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kernels/cpu/worker.h"
#include "plan.h"

namespace encore::cpu {

// The caller of run() is the team's first member; the others are threads of their own, one pinned
// to each processor given. Between runs they spin for a moment, then sleep.
class ThreadTeam {
 public:
  // One member for each entry of `processors`. The caller's own affinity is left alone.
  ThreadTeam(std::span<const int32_t> processors, bool pin);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int32_t size() const { return static_cast<int32_t>(scratch_.size()); }

  // Makes sure that each member has that much scratch. Not while a run is under way.
  void reserve_scratch(size_t bytes);
  int64_t scratch_bytes() const;

  // Executes the nodes in order, all members on each, a barrier after each. Returns when done.
  // Callers from several threads take turns. Allocates nothing.
  void run(std::span<const PlanNode> nodes);

  // One kernel call, outside any plan.
  template <typename Args>
  void run(Kernel<Args> kernel, const Args& args) {
    const PlanNode node = make_node(kernel, &args);
    run(std::span(&node, 1));
  }

 private:
  struct AlignedFree {
    void operator()(std::byte* pointer) const;
  };
  void serve(int32_t index);
  void stop();
  void execute(int32_t index);
  uint32_t await_run(uint32_t seen) const;

  std::mutex turn_;
  kernels::Barrier barrier_;
  std::vector<std::unique_ptr<std::byte[], AlignedFree>> scratch_;
  size_t scratch_bytes_ = 0;
  std::span<const PlanNode> nodes_;
  alignas(64) std::atomic<uint32_t> generation_{0};  // counts runs; tells members to start
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace encore::cpu
