// Ranks of one model on the CPU: each has a part of the threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cpu_device.h"
#include "encore/lowering/parallel_model.h"
#include "rank_meeting.h"

namespace encore::cpu {

class CpuRanks final : public lowering::RankGroup {
 public:
  // One team for each rank.
  CpuRanks(std::vector<std::shared_ptr<ThreadTeam>> teams, kernels::IsaLevel level,
           int64_t limit_us = lowering::ParallelLimits{}.step_us)
      : teams_(std::move(teams)),
        level_(level),
        meeting_(std::make_shared<RankMeeting>(static_cast<int32_t>(teams_.size()), limit_us)) {}

  int32_t size() const override { return static_cast<int32_t>(teams_.size()); }
  Result<std::unique_ptr<lowering::Device>> make_device(int32_t rank) override {
    return std::unique_ptr<lowering::Device>(std::make_unique<CpuDevice>(
        teams_[static_cast<size_t>(rank)], level_, RankPlace{meeting_, rank}));
  }
  void abort() override { meeting_->abort(); }

 private:
  std::vector<std::shared_ptr<ThreadTeam>> teams_;
  kernels::IsaLevel level_;
  std::shared_ptr<RankMeeting> meeting_;
};

}  // namespace encore::cpu
