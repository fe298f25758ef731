// What a parallel model, its KV caches and its runners share: the ranks and their fate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "encore/lowering/lowered_model.h"
#include "encore/lowering/parallel_model.h"
#include "encore/lowering/sharded_weights.h"
#include "rank_fault.h"
#include "rank_team.h"

namespace encore::lowering {

// Threads: any, one call at a time. Once a rank is lost every call fails with the same error, and
// what the ranks own is never freed: a thread may still be using it.
class ParallelCore : public std::enable_shared_from_this<ParallelCore> {
 public:
  // What the ranks are doing, for messages: "submitting step 3".
  struct Task {
    const char* verb;
    uint64_t step = 0;  // 0: not part of a step
  };

  static Result<std::shared_ptr<ParallelCore>> create(std::unique_ptr<RankGroup> group,
                                                      const ParallelLimits& limits);
  ~ParallelCore();

  int32_t size() const { return team_->size(); }
  RankGroup& group() { return *group_; }
  const ParallelLimits& limits() const { return limits_; }
  LoweredModel& model(int32_t rank) { return *models_[static_cast<size_t>(rank)]; }
  void keep(int32_t rank, std::unique_ptr<ShardedWeights> weights,
            std::unique_ptr<LoweredModel> model);
  uint64_t next_step() { return ++num_steps_; }
  const RankFault& fault() const { return fault_; }

  // Preparation, after which nothing is lost by trying again. A rank's error is returned, with its
  // name unless all ranks say the same. `poll`: see RankTeam::Hooks.
  template <typename Call>
  Status prepare(const Task& task, const Call& call, const std::function<bool()>& poll = {}) {
    const int64_t us = limits_.setup_us;
    return run(task, call, {kNoLimitUs, us, us, kAfterAbortUs}, poll, false);
  }
  // Empty steps, in which ranks meet and devices prepare what they run for the first time.
  template <typename Call>
  Status warm_up(const Task& task, const Call& call) {
    return run(task, call, {kNoLimitUs, limits_.setup_us, kAfterErrorUs, kAfterAbortUs}, {}, true);
  }
  // Part of a step: ranks that meet in collectives. If some fail and some do not, all are lost.
  template <typename Call>
  Status step(const Task& task, const Call& call) {
    return run(task, call, {kNoLimitUs, limits_.step_us, kAfterErrorUs, kAfterAbortUs}, {}, true);
  }
  // Waiting for a step's results, each rank for `wait_us` at most. Errors: as prepare().
  template <typename Call>
  Status await(const Task& task, int64_t wait_us, const Call& call) {
    return run(task, call,
               {wait_us + limits_.step_us, limits_.step_us, kAfterErrorUs, kAfterAbortUs}, {},
               false);
  }
  // Of the last call: what the rank said. REQUIRES: it failed with an answer from all.
  const Status& answer(int32_t rank) const { return team_->status(rank); }

  // The ranks can no longer be trusted to be at the same point. Returns what every call will now.
  Status lose(const std::string& message);

  // After a call that failed: waits for ranks that are late, which may be using `state`. If some do
  // not come, that stays until the process ends.
  void outlive_late_ranks(std::shared_ptr<void> state);

  // Frees what belongs to the ranks, on their own threads.
  template <typename T>
  void destroy(std::vector<std::unique_ptr<T>>& parts) {
    const Status freed = prepare({"freeing"}, [&parts](int32_t rank) -> Status {
      parts[static_cast<size_t>(rank)].reset();
      return {};
    });
    if (freed.ok()) return;
    const std::lock_guard<std::mutex> lock(turn_);
    for (std::unique_ptr<T>& part : parts) abandoned_.emplace_back(std::move(part));
  }

 private:
  static constexpr int64_t kNoLimitUs = 600'000'000;  // far above any call's
  static constexpr int64_t kAfterErrorUs = 500'000;
  static constexpr int64_t kAfterAbortUs = 1'000'000;
  static constexpr int64_t kLateUs = 10'000'000;

  ParallelCore(std::unique_ptr<RankGroup> group, std::unique_ptr<RankTeam> team,
               const ParallelLimits& limits, const RankFault& fault);

  template <typename Call>
  Status run(const Task& task, const Call& call, const RankTeam::Limits& limits,
             const std::function<bool()>& poll, bool all_or_none) {
    const std::lock_guard<std::mutex> lock(turn_);
    if (!lost_.ok()) return lost_;
    hooks_.poll = poll;
    if (!team_->run(call, limits, hooks_)) return lose_silent(task);
    return judge(task, all_or_none);
  }
  // All ranks answered: what that means.
  Status judge(const Task& task, bool all_or_none);
  // Not all ranks answered.
  Status lose_silent(const Task& task);
  Status lose_locked(const std::string& message);

  std::unique_ptr<RankGroup> group_;
  std::unique_ptr<RankTeam> team_;
  ParallelLimits limits_;
  RankFault fault_;
  RankTeam::Hooks hooks_;
  std::mutex turn_;
  Status lost_;
  uint64_t num_steps_ = 0;
  std::vector<std::unique_ptr<ShardedWeights>> weights_;
  std::vector<std::unique_ptr<LoweredModel>> models_;
  std::vector<std::shared_ptr<void>> abandoned_;
};

// "rank 1: MESSAGE", with the code.
Status of_rank(int32_t rank, const Status& status);

}  // namespace encore::lowering
