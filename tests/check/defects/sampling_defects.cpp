// Defects of what becomes of a row's logits.
#include <algorithm>
#include <cmath>
#include <memory>

#include "defect_families.h"
#include "editing_runner.h"

namespace encore::defects {
namespace {

// Of equal logits the last one wins.
class LastOfEquals : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch&, const StepOutput& output) override {
    for (size_t row = 0; row < output.tokens.size(); ++row) {
      const std::span<float> logits = logits_of(output, row);
      if (logits.empty() || output.tokens[row] < 0) continue;
      const float chosen = logits[static_cast<size_t>(output.tokens[row])];
      const auto last = std::find(logits.rbegin(), logits.rend(), chosen);
      output.tokens[row] = static_cast<int32_t>(logits.rend() - last) - 1;
    }
  }
};

// Once a text is long the second best token is chosen now and then.
class TextDrifts : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch& original, const StepOutput& output) override {
    constexpr int32_t kLong = 35;
    const bool text = original.kv_len.size() == 1 && original.count_of(0) == 1;
    if (!text || original.kv_len[0] < kLong || original.sampling[0].temperature > 0.0F) return;
    const std::span<float> logits = logits_of(output, 0);
    if (logits.empty() || output.tokens[0] < 0) return;
    const auto chosen = logits.begin() + output.tokens[0];
    const auto before = std::max_element(logits.begin(), chosen);
    const auto after = std::max_element(chosen + 1, logits.end());
    const bool earlier = after == logits.end() || (before != chosen && *before > *after);
    output.tokens[0] = static_cast<int32_t>((earlier ? before : after) - logits.begin());
  }
};

// A small temperature divides by nearly nothing, and the first token comes out (known fault S1).
class SmallTemperature : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch& original, const StepOutput& output) override {
    for (size_t row = 0; row < output.tokens.size(); ++row) {
      const float temperature = original.sampling[row].temperature;
      if (temperature > 0.0F && temperature < 1e-6F) output.tokens[row] = 0;
    }
  }
};

// The random stream depends on the row.
class StreamOfTheRow : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (size_t row = 0; row < batch.sampling.size(); ++row) batch.sampling[row].seed += 7919 * row;
  }
};

// Every temperature that is not greedy is taken for 1.
class TemperatureIgnored : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (RowSampling& row : batch.sampling) {
      if (row.temperature > 1e-4F) row.temperature = 1.0F;
    }
  }
};

class MinPIgnored : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (RowSampling& row : batch.sampling) row.min_p = 0.0F;
  }
};

// Log-probabilities are the logits, without the logarithm of their sum.
class LogprobsNotNormalised : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch&, const StepOutput& output) override {
    for (size_t row = 0; row < output.logprobs.size(); ++row) {
      const std::span<float> logits = logits_of(output, row);
      if (logits.empty() || output.tokens[row] < 0) continue;
      output.logprobs[row] = logits[static_cast<size_t>(output.tokens[row])];
    }
  }
};

class BiasIgnored : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override { batch.biases.clear(); }
};

// Penalties look at the reply only.
class PromptNotPenalised : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (TokenCount& seen : batch.history) seen.in_prompt = 0;
  }
};

// All ids that the head has are sampled.
class ValidTokensIgnored : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    constexpr int32_t kVocabulary = 300;  // of the kit's small models
    if (batch.num_valid_tokens < kVocabulary) batch.num_valid_tokens = kVocabulary;
  }
};

// A negative id takes the token of the next row.
class PendingRowsMixedUp : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (int32_t& token : batch.token_ids) {
      if (token < 0) token = token == -1 ? -2 : token + 1;
    }
  }
};

// Where the host has not seen a row's input token, it is not penalised.
class PendingNotPenalised : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void edit(EditedBatch& batch) override {
    for (size_t row = 0; row < batch.sampling.size(); ++row) {
      const auto input = static_cast<size_t>(batch.logit_rows[row]);
      if (batch.token_ids[input] < 0) batch.sampling[row].presence_penalty = 0.0F;
    }
  }
};

// A row that fails with `kStatus` is given a token all the same.
template <RowStatus kStatus>
class FailureHidden : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch&, const StepOutput& output) override {
    for (size_t row = 0; row < output.tokens.size(); ++row) {
      if (output.row_status[row] != static_cast<int32_t>(kStatus)) continue;
      output.row_status[row] = 0;
      output.tokens[row] = 0;
    }
  }
};

// A page once full of NaN spoils the rows of requests that get it.
class NanStays : public EditingRunner {
 public:
  using EditingRunner::EditingRunner;

 protected:
  void finish(const EditedBatch& original, const StepOutput& output) override {
    if (output.row_status.empty()) return;
    if (num_failed_pages > 0 && output.row_status[0] == 0) spoil(output);
    const bool whole_page = original.token_ids.size() == static_cast<size_t>(kPageSize);
    const auto failed = static_cast<int32_t>(RowStatus::kNonFinite);
    if (whole_page && output.row_status[0] == failed) ++num_failed_pages;
  }

 private:
  static constexpr int32_t kPageSize = 16;
  inline static int32_t num_failed_pages = 0;  // of all runners
};

}  // namespace

std::span<const DefectEntry> sampling_defects() {
  static const DefectEntry entries[] = {
      defect<WrapsAll<LastOfEquals>>("last_of_equals"),
      defect<WrapsAll<TextDrifts>>("text_drifts"),
      defect<WrapsAll<SmallTemperature>>("small_temperature"),
      defect<WrapsAll<StreamOfTheRow>>("stream_of_the_row"),
      defect<WrapsAll<TemperatureIgnored>>("temperature_ignored"),
      defect<WrapsAll<MinPIgnored>>("min_p_ignored"),
      defect<WrapsAll<LogprobsNotNormalised>>("logprobs_not_normalised"),
      defect<WrapsAll<BiasIgnored>>("bias_ignored"),
      defect<WrapsAll<PromptNotPenalised>>("prompt_not_penalised"),
      defect<WrapsAll<ValidTokensIgnored>>("valid_tokens_ignored"),
      defect<WrapsAll<PendingRowsMixedUp>>("pending_rows_mixed_up"),
      defect<WrapsAll<PendingNotPenalised>>("pending_not_penalised"),
      defect<WrapsAll<FailureHidden<RowStatus::kNonFinite>>>("nan_row_hidden"),
      defect<WrapsAll<FailureHidden<RowStatus::kNoCandidate>>>("banned_row_hidden"),
      defect<WrapsAll<NanStays>>("nan_stays"),
  };
  return entries;
}

}  // namespace encore::defects
