#include "parallel_core.h"

#include <algorithm>

namespace encore::lowering {
namespace {

std::string describe(const ParallelCore::Task& task) {
  return task.verb + (task.step == 0 ? "" : " step " + std::to_string(task.step));
}

// Where what a lost rank may still use stays until the process ends.
void keep_for_ever(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(std::move(object));
}

}  // namespace

Status of_rank(int32_t rank, const Status& status) {
  return status.retold("rank " + std::to_string(rank) + ": " + status.message());
}

Result<std::shared_ptr<ParallelCore>> ParallelCore::create(std::unique_ptr<RankGroup> group,
                                                           const ParallelLimits& limits) {
  ENCORE_ASSIGN_OR_RETURN(const RankFault fault, RankFault::from_environment());
  ENCORE_ASSIGN_OR_RETURN(std::unique_ptr<RankTeam> team, RankTeam::create(group->size()));
  return std::shared_ptr<ParallelCore>(
      new ParallelCore(std::move(group), std::move(team), limits, fault));
}

ParallelCore::ParallelCore(std::unique_ptr<RankGroup> group, std::unique_ptr<RankTeam> team,
                           const ParallelLimits& limits, const RankFault& fault)
    : group_(std::move(group)),
      team_(std::move(team)),
      limits_(limits),
      fault_(fault),
      weights_(static_cast<size_t>(team_->size())),
      models_(static_cast<size_t>(team_->size())) {
  hooks_.abort = [this]() { group_->abort(); };
}

ParallelCore::~ParallelCore() {
  const Status freed = prepare({"freeing the model"}, [this](int32_t rank) -> Status {
    models_[static_cast<size_t>(rank)].reset();
    return {};
  });
  if (freed.ok()) return;
  for (std::unique_ptr<LoweredModel>& model : models_) static_cast<void>(model.release());
}

void ParallelCore::keep(int32_t rank, std::unique_ptr<ShardedWeights> weights,
                        std::unique_ptr<LoweredModel> model) {
  weights_[static_cast<size_t>(rank)] = std::move(weights);
  models_[static_cast<size_t>(rank)] = std::move(model);
}

void ParallelCore::outlive_late_ranks(std::shared_ptr<void> state) {
  const std::lock_guard<std::mutex> lock(turn_);
  if (!team_->lost() || team_->await_late_ranks(kLateUs)) return;
  abandoned_.emplace_back(std::move(state));
}

Status ParallelCore::judge(const Task& task, bool all_or_none) {
  int32_t failed = -1;
  bool same = true;
  for (int32_t rank = 0; rank < size(); ++rank) {
    // A rank that was told to stop is not the one to blame.
    const bool told = failed >= 0 && answer(failed).code() == StatusCode::kCancelled;
    if (!answer(rank).ok() && (failed < 0 || told)) failed = rank;
    same = same && answer(rank).code() == answer(0).code();
  }
  if (failed < 0) return {};
  if (same) return answer(0);
  if (!all_or_none) return of_rank(failed, answer(failed));
  return lose_locked("the ranks parted while " + describe(task) + "; " +
                     of_rank(failed, answer(failed)).to_string());
}

Status ParallelCore::lose_silent(const Task& task) {
  std::string missing;
  std::string errors;
  for (int32_t rank = 0; rank < size(); ++rank) {
    if (!team_->answered(rank)) {
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    } else if (!answer(rank).ok()) {
      errors += "; " + of_rank(rank, answer(rank)).to_string();
    }
  }
  return lose_locked(missing + " did not answer while " + describe(task) + errors);
}

Status ParallelCore::lose(const std::string& message) {
  const std::lock_guard<std::mutex> lock(turn_);
  if (!lost_.ok()) return lost_;
  return lose_locked(message);
}

Status ParallelCore::lose_locked(const std::string& message) {
  // Also what was submitted and is waiting on a device: a process cannot end before it does.
  group_->abort();
  // What it holds of the devices stays held.
  lost_ = internal_error(message + "; the model cannot go on").spoiling(Scope::kDevice);
  if (std::shared_ptr<ParallelCore> self = weak_from_this().lock()) keep_for_ever(std::move(self));
  return lost_;
}

}  // namespace encore::lowering
