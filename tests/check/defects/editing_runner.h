// A runner that a defect lets change the steps it gets and the results it gives.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "defective_runner.h"

namespace encore::defects {

// A batch whose arrays may be changed before the sound runner sees it. The vectors stay valid when
// the step has been submitted; `batch` does not.
struct EditedBatch {
  explicit EditedBatch(const ForwardBatch& original);
  ForwardBatch view() const;

  ForwardBatch batch;  // for view()
  std::vector<int32_t> token_ids, q_start, kv_len, logit_rows;
  std::vector<RowSampling> sampling;
  std::vector<TokenBias> biases;
  std::vector<TokenCount> history;
  int32_t num_valid_tokens = 0;

  int32_t count_of(size_t request) const { return q_start[request + 1] - q_start[request]; }
};

class EditingRunner : public ForwardingRunner {
 public:
  using ForwardingRunner::ForwardingRunner;
  Result<Ticket> submit(const ForwardBatch& batch, const StepOutput& output) final;
  Status wait(Ticket ticket, int64_t timeout_us) final;

 protected:
  // A step before it runs.
  virtual void edit(EditedBatch& batch) { static_cast<void>(batch); }
  // Its results, with the step as it came.
  virtual void finish(const EditedBatch& original, const StepOutput& output) {
    static_cast<void>(original);
    static_cast<void>(output);
  }

 private:
  struct Step {
    EditedBatch original;
    StepOutput output;
  };
  std::map<Ticket, Step> in_flight_;
};

// Row `row` of the whole logits; empty if they are not wanted.
std::span<float> logits_of(const StepOutput& output, size_t row);

// Exchanges two rows of all results but the most probable tokens.
void swap_rows(const StepOutput& output, size_t first, size_t second);

// A defect that wraps every runner in RunnerT.
template <typename RunnerT>
class WrapsAll final : public Defect {
 public:
  std::unique_ptr<Runner> wrap(std::unique_ptr<Runner> runner, const RunnerFacts& facts) override {
    return std::make_unique<RunnerT>(std::move(runner), facts);
  }
};

}  // namespace encore::defects
