// The part that all three runners share: check, stage, execute, hand over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "encore/lowering/layer_stack.h"
#include "encore/lowering/step_context.h"
#include "encore/runner.h"

namespace encore::lowering {

// Every request brings exactly one token.
bool is_decode(const ForwardBatch& batch);

// A runner over a StepContext. Derived classes choose the bucket and enqueue the step's work.
class StepRunner : public Runner {
 public:
  RunnerCheck check(const ForwardBatch& batch, const StepOutput& output) const final;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) final;
  Status wait(Ticket ticket, int64_t timeout_us) final {
    return context_->wait(ticket, timeout_us);
  }
  Result<std::vector<TraceEvent>> trace(const ForwardBatch& batch, const StepOutput& output) final;
  // Gives a captured bucket up: check() no longer offers it. For ranks that another could not
  // follow; a runner without buckets has nothing to do.
  virtual void drop_bucket(int32_t size) { static_cast<void>(size); }

 protected:
  // The padded sizes of a step, as the static inputs are padded to.
  struct PaddedSize {
    int32_t tokens = 0;
    int32_t requests = 0;
  };

  StepRunner(std::shared_ptr<StepContext> context, const LayerStack& stack)
      : context_(std::move(context)), stack_(stack) {}

  // Whether this runner has something for the batch; the static buffers are known to hold it.
  virtual RunnerCheck check_bucket(const ForwardBatch& batch) const = 0;
  virtual PaddedSize padded_size(const ForwardBatch& batch, int32_t bucket) const = 0;
  // Enqueues everything from embed to sample; gives the step's logits.
  virtual Result<Matrix> execute(const ForwardBatch& batch, int32_t bucket) = 0;

  StepContext& context() const { return *context_; }
  const LayerStack& stack() const { return stack_; }

 private:
  std::shared_ptr<StepContext> context_;
  const LayerStack& stack_;
};

}  // namespace encore::lowering
