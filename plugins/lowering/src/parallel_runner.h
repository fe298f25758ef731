// One runner over all ranks: a step is submitted to each and waited for on each.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "encore/lowering/step_runner.h"
#include "parallel_core.h"

namespace encore::lowering {

class ParallelRunner final : public Runner {
 public:
  // Takes one capture from each rank, in the order of the ranks, and drops the buckets that not all
  // have. Sums are over the ranks.
  static RunnerCapture join(std::shared_ptr<ParallelCore> core, std::vector<RunnerCapture> captures,
                            const RunnerLimits& limits);
  ~ParallelRunner() override { core_->destroy(parts_); }

  RunnerKind kind() const override { return kind_; }
  // Rank 0's: all have the same buckets.
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    return parts_.front()->check(batch, output);
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override;
  Status wait(Ticket ticket, int64_t timeout_us) override;
  Result<CaptureReport> capture_bucket(int32_t bucket) override;

 private:
  // Where a rank's results go: the caller's memory for rank 0, buffers of our own for the others.
  struct RankStep {
    Ticket ticket = 0;
    bool done = false;
    StepOutput output;
    std::vector<int32_t> tokens, row_status, top_tokens;
    std::vector<float> top_logprobs;
  };
  struct Slot {
    Ticket ticket = 0;  // 0: free
    uint64_t step = 0;
    std::chrono::steady_clock::time_point submitted_at;
    std::vector<RankStep> ranks;
  };

  ParallelRunner(std::shared_ptr<ParallelCore> core, std::vector<RunnerCapture>& captures,
                 const RunnerLimits& limits);
  CaptureReport merge(const std::vector<CaptureReport>& reports);
  BucketReport merge_bucket(const std::vector<CaptureReport>& reports, size_t index);
  Status check_output(const StepOutput& output) const;
  static void mirror(const StepOutput& output, RankStep& rank);
  Status compare_tokens(const Slot& slot);
  Status late(const Slot& slot, int64_t limit_us);

  std::shared_ptr<ParallelCore> core_;
  RunnerKind kind_;
  std::vector<std::unique_ptr<StepRunner>> parts_;
  std::array<Slot, StepContext::kMaxTicketsInFlight> slots_;
};

}  // namespace encore::lowering
