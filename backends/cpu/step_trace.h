// Times the kernels of one step, one by one.
#pragma once

#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "encore/runner.h"
#include "plan.h"
#include "thread_team.h"

namespace encore::cpu {

// Each kernel runs alone, so that it can be timed: the barriers between the kernels of a plan,
// which a step pays for otherwise, become starts of the team. One thread.
class StepTrace {
 public:
  void run(ThreadTeam& team, const PlanNode& node) {
    const Clock::time_point start = Clock::now();
    team.run(std::span(&node, 1));
    const Clock::time_point end = Clock::now();
    if (events_.empty()) first_ = start;
    events_.push_back({node.label.text(), us(start - first_), us(end - start), 0});
  }

  std::vector<TraceEvent> take() { return std::move(events_); }

 private:
  using Clock = std::chrono::steady_clock;

  static double us(Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  }

  Clock::time_point first_;
  std::vector<TraceEvent> events_;
};

}  // namespace encore::cpu
