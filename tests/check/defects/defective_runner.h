// Layers that a defect may put round a sound runner.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "defect.h"
#include "encore/runner.h"

namespace encore::defects {

// Hands everything to the sound runner. Threads: as Runner.
class ForwardingRunner : public Runner {
 public:
  ForwardingRunner(std::unique_ptr<Runner> sound, RunnerFacts facts)
      : sound_(std::move(sound)), facts_(std::move(facts)) {}

  RunnerKind kind() const override { return sound_->kind(); }
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const override {
    return sound_->check(batch, output);
  }
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) override {
    return sound_->submit(batch, output);
  }
  Status wait(Ticket ticket, int64_t timeout_us) override {
    return sound_->wait(ticket, timeout_us);
  }
  Result<CaptureReport> capture_bucket(int32_t bucket) override {
    return sound_->capture_bucket(bucket);
  }
  Result<std::vector<TraceEvent>> trace(const ForwardBatch& batch,
                                        const StepOutput& output) override {
    return sound_->trace(batch, output);
  }

 protected:
  Runner& sound() { return *sound_; }
  const Runner& sound() const { return *sound_; }
  const RunnerFacts& facts() const { return facts_; }

 private:
  std::unique_ptr<Runner> sound_;
  RunnerFacts facts_;
};

// Gives wrong results in the steps that `spoils` picks.
class SpoilingRunner : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) final;
  Status wait(Ticket ticket, int64_t timeout_us) final;

 protected:
  // Called once for each step that is submitted; `bucket` is its padded size.
  virtual bool spoils(const ForwardBatch& batch, int32_t bucket) = 0;
  // Called before the step is waited for: whether that spoils it. By the waiting thread.
  virtual bool wait_spoils() { return false; }

 private:
  std::map<Ticket, std::pair<StepOutput, bool>> in_flight_;  // outputs, and whether to spoil them
};

// Damages a step's results: other tokens, other logits.
void spoil(const StepOutput& output);

}  // namespace encore::defects
